/** The table in docs/sftp.md of all responses that differ from OpenSSH's. */
import { readFile } from 'node:fs/promises'
import type { Check } from './check.js'
import type { Kind, Server } from './servers.js'

interface Difference {
  readonly check: string
  readonly openssh: string
  readonly tidegate: string
  readonly kind: Kind
  readonly reason: string
}

const columns = ['Check', "OpenSSH's server", 'Tidegate', 'On', 'Why']
const kinds: readonly string[] = ['any storage', 'without symlinks', 'without handles'] satisfies readonly Kind[]

/** Throws if the table is missing or a row is malformed. */
export async function readDifferences(page = 'docs/sftp.md'): Promise<readonly Difference[]> {
  const rows = (await readFile(page, 'utf8'))
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map(cellsOf)
  const head = rows.findIndex((row) => row.join() === columns.join())
  if (head === -1) throw new Error(`${page} has no table with the columns ${columns.join(', ')}`)
  return rows.slice(head + 2).map((row) => {
    const [check = '', openssh = '', tidegate = '', kind = '', reason = ''] = row
    if (row.length !== columns.length || !kinds.includes(kind) || reason === '') {
      throw new Error(`not a row of differences: ${row.join(' | ')}`)
    }
    return { check, openssh, tidegate, kind: kind as Kind, reason }
  })
}

/**
 * The required response of `server`: the row for its most specific kind, otherwise the response of OpenSSH's server.
 */
export function expected({ title, told }: Check, server: Server, differences: readonly Difference[]): string {
  for (const kind of server.kinds) {
    const row = differences.find((each) => each.check === title && each.kind === kind)
    if (row) return row.tidegate
  }
  return told
}

/** Responses are in the table as code, where only `|` must be escaped. */
function cellsOf(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) =>
      cell
        .trim()
        .replace(/^`(.*)`$/, '$1')
        .replaceAll('\\|', '|'),
    )
}
