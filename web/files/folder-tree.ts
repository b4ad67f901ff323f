/** The folders of the tree that are shown below each other, loaded as they are expanded. */
import { useQueries } from '@tanstack/preact-query'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { messageOf } from '../components/error-text.ts'
import { joined } from '../components/places.ts'
import { compareNames } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import { folderPasswords } from '../session/folder-passwords.ts'

const texts = textsOf('common', 'files')

export interface FolderNode {
  readonly path: string
  readonly name: string
  /** The depth of the folder; 1 for the root. */
  readonly level: number
  /** The place of the folder among those beside it, counted from 1, and their number. */
  readonly position: number
  readonly siblings: number
  readonly isExpanded: boolean
  /** Whether it is known that it has no folders. */
  readonly isLeaf: boolean
  /** Why its folders are not shown. */
  readonly problem?: string
}

/** The folders in the order in which they are shown. `expanded`: paths. */
export function useFolderTree(expanded: ReadonlySet<string>): readonly FolderNode[] {
  const paths = [...expanded]
  const results = useQueries({
    queries: paths.map((path) => ({
      queryKey: keys.folders(path),
      queryFn: ({ signal }: { signal: AbortSignal }) => foldersIn(path, signal),
    })),
  })
  const loaded = new Map(paths.map((path, index) => [path, results[index]]))
  const nodes: FolderNode[] = []
  add('/', texts.files.home, 1, 1, 1)
  return nodes

  function add(path: string, name: string, level: number, position: number, siblings: number): void {
    const result = loaded.get(path)
    const problem = result?.error ? messageOf(result.error) : result?.isPending === true ? texts.loading : undefined
    const isExpanded = result !== undefined
    const isLeaf = result?.data?.length === 0
    const known = { path, name, level, position, siblings, isExpanded, isLeaf }
    nodes.push({ ...known, ...(problem !== undefined && { problem }) })
    const names = result?.data ?? []
    for (const [index, child] of names.entries()) add(joined(path, child), child, level + 1, index + 1, names.length)
  }
}

/** The folders that are expanded after one of them is expanded or folded. */
export function withFolder(expanded: ReadonlySet<string>, folder: string, isExpanded: boolean): ReadonlySet<string> {
  const folders = new Set(expanded)
  if (isExpanded) folders.add(folder)
  else folders.delete(folder)
  return folders
}

async function foldersIn(path: string, signal: AbortSignal): Promise<readonly string[]> {
  const folders = await post('/api/fs/dirs', { path, password: folderPasswords.of(path) }, { signal })
  return folders.map(({ name }) => name).sort(compareNames)
}
