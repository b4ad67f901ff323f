/** The pictures beside a picture in its folder. */
import { useQuery } from '@tanstack/preact-query'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { sorting } from '../entries/folder.ts'
import { useSource } from '../entries/source.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { joined, nameOf, parentOf } from '../components/places.ts'
import { viewerOf } from './viewer.ts'

/** Paths; undefined at the ends. */
export interface Neighbours {
  readonly previous?: string | undefined
  readonly next?: string | undefined
}

/** Number of entries that are requested at once. */
const pageLength = 1000

/** Milliseconds for which the pictures of a folder are not requested again. */
const staleTime = 60_000

/** The neighbours in the order in which the folder is shown; none until they are known. */
export function useNeighbours(path: string): Neighbours {
  const { top } = useSource()
  const folder = parentOf(path)
  const order = sorting.value
  const { data } = useQuery({
    queryKey: keys.pictures(folder, order),
    queryFn: ({ signal }) => picturesIn(folder, order, signal),
    staleTime,
    // There is nothing beside what is shared alone.
    enabled: path !== top,
  })
  const at = data?.indexOf(nameOf(path)) ?? -1
  if (data === undefined || at < 0) return {}
  const pathOf = (name: string | undefined) => (name === undefined ? undefined : joined(folder, name))
  return { previous: pathOf(data[at - 1]), next: pathOf(data[at + 1]) }
}

/** The names of the pictures of a folder, read page by page. */
async function picturesIn(folder: string, order: typeof sorting.value, signal: AbortSignal): Promise<string[]> {
  const fields = { path: folder, password: folderPasswords.of(folder), per_page: pageLength, ...order }
  const names: string[] = []
  for (let page = 1; ; page++) {
    const { content } = await post('/api/fs/list', { ...fields, page }, { signal })
    for (const entry of content) if (!entry.is_dir && viewerOf(entry) === 'image') names.push(entry.name)
    if (content.length < pageLength) return names
  }
}
