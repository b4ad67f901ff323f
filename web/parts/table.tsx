/** A table of rows, each with its actions. */
import type { ComponentChildren } from 'preact'
import { texts } from '../texts.ts'

interface TableProps<Row> {
  readonly caption: string
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string | number
  /** By the title of the column. */
  readonly columns: Readonly<Record<string, (row: Row) => ComponentChildren>>
  readonly actions?: (row: Row) => ComponentChildren
}

export function Table<Row>({ caption, rows, keyOf, columns, actions }: TableProps<Row>) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <thead>
          <tr>
            {Object.keys(columns).map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
            {actions && <th scope="col">{texts.files.actions}</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {Object.entries(columns).map(([title, cell]) => (
                <td key={title}>{cell(row)}</td>
              ))}
              {actions && (
                <td>
                  <div class="actions">{actions(row)}</div>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
