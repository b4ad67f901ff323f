/** The pictures beside a picture in its folder. */
import { useQuery } from '@tanstack/preact-query'
import { post } from '../api/client.ts'
import { sorting } from '../files/folder.ts'
import { folderPasswords } from '../files/folder-passwords.ts'
import { joined, nameOf, parentOf } from '../parts/places.ts'
import { viewerOf } from './viewer.ts'

/** Paths; undefined at the ends. */
export interface Neighbours {
  readonly previous?: string | undefined
  readonly next?: string | undefined
}

/** Number of entries that are requested at once. */
const pageLength = 1000

/** The neighbours in the order in which the folder is shown; none until they are known. */
export function useNeighbours(path: string): Neighbours {
  const order = sorting.value
  const { data } = useQuery({
    queryKey: ['folder', parentOf(path), 'neighbours', path, order],
    queryFn: ({ signal }) => findNeighbours(path, order, signal),
  })
  return data ?? {}
}

async function findNeighbours(path: string, order: typeof sorting.value, signal: AbortSignal): Promise<Neighbours> {
  const folder = parentOf(path)
  const own = nameOf(path)
  let previous: string | undefined
  let isFound = false
  for await (const name of picturesIn(folder, order, signal)) {
    if (isFound) return { previous, next: joined(folder, name) }
    if (name === own) isFound = true
    else previous = joined(folder, name)
  }
  return isFound ? { previous } : {}
}

/** The names of the pictures of a folder, read page by page. */
async function* picturesIn(
  folder: string,
  order: typeof sorting.value,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  const fields = { path: folder, password: folderPasswords.of(folder), per_page: pageLength, ...order }
  for (let page = 1; ; page++) {
    const { content } = await post('/api/fs/list', { ...fields, page }, { signal })
    for (const entry of content) if (!entry.is_dir && viewerOf(entry) === 'image') yield entry.name
    if (content.length < pageLength) return
  }
}
