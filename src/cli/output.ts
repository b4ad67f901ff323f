/** What commands print on stdout: tables and sentences for people, JSON for programs. */

export type Cell = string | number | boolean

/** Rows under the names of their columns, aligned; control characters cannot reach the terminal. */
export function formatTable(columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [columns.map((column) => column.toUpperCase()), ...rows.map((row) => row.map(printable))]
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

function printable(cell: Cell): string {
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no'
  return String(cell).replaceAll(/\p{Cc}/gu, '\ufffd')
}

/** `value` as JSON where a program asks, else the sentence or table. */
export function print(flags: { readonly json?: boolean }, value: unknown, text: string): void {
  process.stdout.write(`${flags.json === true ? JSON.stringify(value) : text}\n`)
}
