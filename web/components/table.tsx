/** A table of rows, each with its actions. On narrow screens the cells of a row stand below each other. */
import type { ComponentChildren } from 'preact'
import { textsOf } from '../texts/texts.ts'
import './table.css'

const texts = textsOf('files')

interface TableProps<Row> {
  readonly caption: string
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string | number
  /** The cells of a row by the title of the column. */
  readonly columns: Readonly<Record<string, (row: Row) => ComponentChildren>>
  readonly actions?: (row: Row) => ComponentChildren
}

// The roles are repeated because elements that are no longer displayed as a table lose them in some browsers.
export function Table<Row>({ caption, rows, keyOf, columns, actions }: TableProps<Row>) {
  return (
    <table class="rows" role="table" aria-label={caption}>
      <thead role="rowgroup">
        <tr role="row">
          {[...Object.keys(columns), ...(actions ? [texts.files.actions] : [])].map((title) => (
            <th key={title} role="columnheader" scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr key={keyOf(row)} role="row">
            {Object.entries(columns).map(([title, cell]) => (
              <td key={title} role="cell" data-title={title}>
                {cell(row)}
              </td>
            ))}
            {actions && (
              <td role="cell" class="actions">
                {actions(row)}
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
