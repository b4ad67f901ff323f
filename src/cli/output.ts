/** The output of commands on stdout: text by default, JSON with `--json`. */

type Cell = string | number | boolean

/** Formats an aligned table with a header. Control characters are replaced. */
export function formatTable(columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [columns.map((column) => column.toUpperCase()), ...rows.map((row) => row.map(cellOf))]
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => (line[index] ?? '').length)))
  return lines
    .map((line) =>
      line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function cellOf(value: Cell): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return printable(String(value))
}

/** A text in one line of a terminal: control characters are replaced. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '\ufffd')
}

/** Prints `value` as JSON with `--json`, else `text`. */
export function print(flags: { readonly json?: boolean }, value: unknown, text: string): void {
  process.stdout.write(`${flags.json === true ? JSON.stringify(value) : text}\n`)
}

/** Prints a warning beside the output, which programs read. */
export function warn(text: string): void {
  process.stderr.write(`tidegate: ${printable(text)}\n`)
}
