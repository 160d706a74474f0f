//! What is reserved, created, mapped, registered and queued, and the rules about it.

use std::collections::BTreeMap;

use allocator_core::{Device, Error, ErrorKind, Operation};

use crate::wrapped::Request;

#[derive(Debug)]
struct Piece {
    bytes: u64,
    handle: u64,
    access: Vec<Device>,
}

/// Copies and fills that are queued.
#[derive(Debug)]
struct Queued {
    stream: u64,
    device: Device,
    at: (u64, u64),
    host: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Books {
    /// Bytes by first address.
    ranges: BTreeMap<u64, u64>,
    pieces: BTreeMap<u64, Piece>,
    /// Live handles, and the address each was mapped at last.
    handles: BTreeMap<u64, Option<u64>>,
    /// Registered host bytes by first address.
    host: BTreeMap<u64, u64>,
    queued: Vec<Queued>,
}

/// Whether two stretches of start and length share a byte.
fn meet(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

fn contains(outer: (u64, u64), inner: (u64, u64)) -> bool {
    let end = inner.0.checked_add(inner.1);
    outer.0 <= inner.0 && end.is_some_and(|end| end <= outer.0.saturating_add(outer.1))
}

/// The request in numbers.
struct Asked {
    at: (u64, u64),
    range: (u64, u64),
    handle: u64,
    host: Option<(u64, u64)>,
}

impl Asked {
    fn of(request: &Request<'_>) -> Self {
        let bytes = request.bytes.unwrap_or(0);
        Self {
            at: (request.address.map_or(0, |address| address.0), bytes),
            range: request.range.map_or((0, 0), |(address, bytes)| (address.0, bytes)),
            handle: request.handle.unwrap_or(0),
            host: request.host.map(|host| (host as u64, bytes)),
        }
    }
}

impl Books {
    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), &'static str> {
        let asked = Asked::of(request);
        match request.operation {
            Operation::Map => self.check_map(&asked),
            Operation::SetAccess if request.devices.is_empty() => {
                Err("set_access names at least one device")
            }
            Operation::SetAccess => self.check_piece(&asked, "set_access"),
            Operation::Unmap => {
                self.check_piece(&asked, "unmap")?;
                if self.queued.iter().any(|queued| meet(queued.at, asked.at)) {
                    return Err("no work in flight touches what unmap takes away");
                }
                Ok(())
            }
            Operation::Release => match self.handles.get(&asked.handle) {
                None => Err("release takes a live handle of this driver"),
                Some(_) if self.is_mapped(asked.handle) => {
                    Err("release takes a handle that is not mapped any more")
                }
                Some(_) => Ok(()),
            },
            Operation::Unreserve => self.check_empty(&asked),
            Operation::Vacate => {
                self.check_empty(&asked)?;
                let kept = self.handles.values().flatten().any(|at| meet((*at, 1), asked.range));
                if kept { Err("what was mapped is released before vacate") } else { Ok(()) }
            }
            Operation::Read | Operation::Write => {
                self.check_reach(&asked, request.device)?;
                self.check_host(&asked)
            }
            Operation::Fill => self.check_reach(&asked, request.device),
            Operation::RegisterHost => {
                let taken = |(at, bytes): (&u64, &u64)| {
                    asked.host.is_some_and(|host| meet(host, (*at, *bytes)))
                };
                if self.host.iter().any(taken) {
                    return Err("register_host takes memory that is not registered yet");
                }
                Ok(())
            }
            Operation::UnregisterHost => self.check_unregister(&asked),
            _ => Ok(()),
        }
    }

    fn is_mapped(&self, handle: u64) -> bool {
        self.pieces.values().any(|piece| piece.handle == handle)
    }

    fn check_range(&self, asked: &Asked) -> Result<(), &'static str> {
        let known = self.ranges.get(&asked.range.0) == Some(&asked.range.1);
        if known { Ok(()) } else { Err("the range is one that this driver has reserved") }
    }

    fn check_map(&self, asked: &Asked) -> Result<(), &'static str> {
        self.check_range(asked)?;
        if !self.handles.contains_key(&asked.handle) {
            return Err("map takes a live handle of this driver");
        }
        if !contains(asked.range, asked.at) {
            return Err("map stays within the range");
        }
        if self.pieces.iter().any(|(at, piece)| meet((*at, piece.bytes), asked.at)) {
            return Err("map goes where no mapping is");
        }
        if self.is_mapped(asked.handle) {
            return Err("map takes a handle that is mapped nowhere else");
        }
        Ok(())
    }

    fn check_piece(&self, asked: &Asked, call: &str) -> Result<(), &'static str> {
        self.check_range(asked)?;
        let piece = self.pieces.get(&asked.at.0);
        if contains(asked.range, asked.at) && piece.is_some_and(|piece| piece.bytes == asked.at.1) {
            return Ok(());
        }
        Err(if call == "unmap" {
            "unmap takes exactly one mapped piece"
        } else {
            "set_access takes exactly one mapped piece"
        })
    }

    fn check_empty(&self, asked: &Asked) -> Result<(), &'static str> {
        self.check_range(asked)?;
        if self.pieces.iter().any(|(at, piece)| meet((*at, piece.bytes), asked.range)) {
            return Err("nothing is mapped in a range that is given back");
        }
        Ok(())
    }

    /// Device bytes lie in mapped pieces, one after another, that the stream's device may use.
    fn check_reach(&self, asked: &Asked, device: Option<Device>) -> Result<(), &'static str> {
        let (mut at, bytes) = asked.at;
        let Some(end) = at.checked_add(bytes) else {
            return Err("a copy or fill stays within mapped pieces");
        };
        while at < end {
            let piece = self.pieces.range(..=at).next_back();
            let Some((start, piece)) = piece.filter(|(start, piece)| at < *start + piece.bytes)
            else {
                return Err("a copy or fill stays within mapped pieces");
            };
            if !device.is_some_and(|device| piece.access.contains(&device)) {
                return Err("a copy or fill uses pieces that the stream's device has access to");
            }
            at = start + piece.bytes;
        }
        Ok(())
    }

    fn check_host(&self, asked: &Asked) -> Result<(), &'static str> {
        let Some(host) = asked.host else { return Ok(()) };
        let mut touched = self.host.iter().filter(|(at, bytes)| meet((**at, **bytes), host));
        if touched.all(|(at, bytes)| contains((*at, *bytes), host)) {
            return Ok(());
        }
        Err("the host side of a copy crosses no border of a registered piece")
    }

    fn check_unregister(&self, asked: &Asked) -> Result<(), &'static str> {
        let start = asked.host.map_or(0, |(at, _)| at);
        let Some(bytes) = self.host.get(&start) else {
            return Err("unregister_host takes the start of a registration");
        };
        let piece = (start, *bytes);
        if self.queued.iter().filter_map(|queued| queued.host).any(|host| meet(host, piece)) {
            return Err("no copy is queued on memory that unregister_host takes");
        }
        Ok(())
    }

    /// What is given away, or queued, is so before the driver is asked: another thread may be
    /// handed the same thing before it has answered.
    pub(super) fn begin(&mut self, request: &Request<'_>) {
        let asked = Asked::of(request);
        match request.operation {
            Operation::Unreserve | Operation::Vacate => drop(self.ranges.remove(&asked.range.0)),
            Operation::Release => drop(self.handles.remove(&asked.handle)),
            // After a sticky error the memory may be unmapped although the call fails.
            Operation::UnregisterHost => {
                if let Some((at, _)) = asked.host {
                    self.host.remove(&at);
                }
            }
            Operation::Read | Operation::Write | Operation::Fill => {
                let (Some(stream), Some(device)) = (request.stream, request.device) else { return };
                self.queued.push(Queued { stream, device, at: asked.at, host: asked.host });
            }
            _ => {}
        }
    }

    pub(super) fn end(
        &mut self,
        request: &Request<'_>,
        error: Option<&Error>,
    ) -> Result<(), &'static str> {
        let asked = Asked::of(request);
        let ok = error.is_none();
        if error.is_some_and(|error| error.kind().is_sticky()) {
            // The device touches no memory any more.
            self.queued.retain(|queued| Some(queued.device) != request.device);
        }
        match request.operation {
            Operation::Reserve if ok => {
                if self.ranges.iter().any(|(at, bytes)| meet((*at, *bytes), asked.range)) {
                    return Err("reserve hands out a range that overlaps no other");
                }
                self.ranges.insert(asked.range.0, asked.range.1);
            }
            // Addresses that could not be given back stay reserved.
            Operation::Unreserve if !ok => drop(self.ranges.insert(asked.range.0, asked.range.1)),
            Operation::Vacate
                if error.is_none_or(|error| error.kind() != ErrorKind::AddressLost) =>
            {
                self.ranges.insert(asked.range.0, asked.range.1);
            }
            Operation::Create if ok => drop(self.handles.insert(asked.handle, None)),
            Operation::Map if ok => {
                let piece = Piece { bytes: asked.at.1, handle: asked.handle, access: Vec::new() };
                self.pieces.insert(asked.at.0, piece);
                self.handles.insert(asked.handle, Some(asked.at.0));
            }
            Operation::SetAccess if ok => {
                if let Some(piece) = self.pieces.get_mut(&asked.at.0) {
                    piece.access = request.devices.to_vec();
                }
            }
            Operation::Unmap if ok => drop(self.pieces.remove(&asked.at.0)),
            Operation::Wait => self.queued.retain(|queued| Some(queued.stream) != request.stream),
            Operation::Quiesce if ok => {
                self.queued.retain(|queued| Some(queued.device) != request.device);
            }
            Operation::Read | Operation::Write | Operation::Fill if !ok => {
                let last = self.queued.iter().rposition(|queued| {
                    Some(queued.stream) == request.stream && queued.at == asked.at
                });
                if let Some(place) = last {
                    self.queued.remove(place);
                }
            }
            Operation::RegisterHost if ok => {
                self.host.extend(asked.host);
            }
            _ => {}
        }
        Ok(())
    }
}
