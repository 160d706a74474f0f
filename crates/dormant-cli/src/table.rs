//! Tables for people.

use std::fmt;

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets,
};

/// Which way a column leans.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lean {
    Left,
    Right,
    /// To the right, and as wide as bytes can be, so that several tables look alike.
    Bytes,
}

/// `1023.99 MiB` and the padding.
const BYTES_WIDTH: u16 = 13;

/// A table without borders, indented, that keeps to the terminal's width.
#[derive(Debug)]
pub(crate) struct Table(Grid);

impl Table {
    pub(crate) fn new<const N: usize>(columns: [(&str, Lean); N]) -> Self {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        grid.set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_header(columns.map(|(name, _)| name));
        for (column, (_, lean)) in grid.column_iter_mut().zip(columns) {
            column.set_padding((1, 1));
            column.set_cell_alignment(match lean {
                Lean::Left => CellAlignment::Left,
                Lean::Right | Lean::Bytes => CellAlignment::Right,
            });
            if matches!(lean, Lean::Bytes) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(BYTES_WIDTH)));
            }
        }
        Self(grid)
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells.map(Cell::new));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.lines().enumerate() {
            let lead = if index == 0 { "" } else { "\n" };
            write!(f, "{lead} {}", line.trim_end())?;
        }
        Ok(())
    }
}
