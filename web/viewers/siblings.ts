/** The files of one kind in a folder, such as the pictures beside a picture. */
import { useQuery } from '@tanstack/preact-query'
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import { addressOf, joined, nameOf, parentOf } from '../components/places.ts'
import { entryQuery, sorting } from '../entries/folder.ts'
import { useSource } from '../entries/source.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { viewerOf, type Viewer } from './viewer.ts'

export interface Siblings {
  /** In the order in which the folder is shown. Empty until they are known. */
  readonly paths: readonly string[]
  /** The index of the file itself; -1 if it is not among them. */
  readonly at: number
}

/** Number of entries that are requested at once. */
const pageLength = 1000

/** Milliseconds for which the files of a folder are not requested again. */
const staleTime = 60_000

/** The files beside the file that the same viewer shows, with itself. */
export function useSiblings(path: string, viewer: Viewer): Siblings {
  const { top } = useSource()
  const folder = parentOf(path)
  const order = sorting.value
  const { data = [] } = useQuery({
    queryKey: keys.shownBy(folder, viewer, order),
    queryFn: ({ signal }) => pathsIn(folder, viewer, order, signal),
    staleTime,
    // There is nothing beside what is shared alone.
    enabled: path !== top,
  })
  return { paths: data, at: data.indexOf(path) }
}

/** The paths of the files of a folder that the viewer shows, read page by page. */
async function pathsIn(
  folder: string,
  viewer: Viewer,
  order: typeof sorting.value,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const fields = { path: folder, password: folderPasswords.of(folder), per_page: pageLength, ...order }
  const paths: string[] = []
  for (let page = 1; ; page++) {
    const { content } = await post('/api/fs/list', { ...fields, page }, { signal })
    for (const entry of content) if (!entry.is_dir && viewerOf(entry) === viewer) paths.push(joined(folder, entry.name))
    if (content.length < pageLength) return paths
  }
}

/**
 * A function that shows another file in the place of this one. It loads what the page needs before, so that nothing of
 * the viewer is replaced meanwhile. Only the last call has an effect.
 */
export function useShowing(): (path: string) => Promise<void> {
  const [, navigate] = useLocation()
  const wanted = useRef<string>()
  return async (path) => {
    wanted.current = path
    // A failure is shown by the page.
    if (queryClient.getQueryData(entryQuery(path).queryKey) === undefined) await loadEntry(path)
    if (wanted.current === path) navigate(addressOf(path), { replace: true })
  }
}

/** Loads what the page of a file needs, unless it has been loaded lately. Never rejects. */
export async function loadEntry(path: string): Promise<void> {
  await queryClient.query({ ...entryQuery(path), staleTime }).catch(() => undefined)
}

/** What a list shows of the paths: names, with the way from the folder if they are not in it. */
export function shownName(path: string, folder: string): string {
  return parentOf(path) === folder ? nameOf(path) : path
}
