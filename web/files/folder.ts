/** A folder as the console shows it: its entries page by page, as they come into view. */
import { keepPreviousData, useQueries, useQuery } from '@tanstack/preact-query'
import { post, type Data } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { folderPasswords } from './folder-passwords.ts'

type FolderPage = Data<'/api/fs/list'>
export type Entry = FolderPage['content'][number]

export type SortColumn = 'name' | 'size' | 'modified'

/** How a folder is shown. The server sorts and filters, so that a page is enough. */
export interface Display {
  readonly sort_by: SortColumn
  readonly sort_direction: 'asc' | 'desc'
  /** Only entries whose name contains this text, in any case. Empty: all. */
  readonly contains: string
}

/** Number of entries on a page. */
export const pageLength = 200

/** The folder, with the entries of the first page; the other attributes are those of the whole folder. */
export function useFolder(path: string, display: Display) {
  return useQuery({ ...pageQuery(path, display, 0), placeholderData: keepPreviousDisplay(path) })
}

/** The same folder stays visible while it is sorted or filtered in another way. */
function keepPreviousDisplay(path: string) {
  return (previous: FolderPage | undefined, query: { readonly queryKey: readonly unknown[] } | undefined) =>
    query?.queryKey[1] === path ? keepPreviousData(previous) : undefined
}

/** The entries of these pages; undefined where a page is not loaded. `pages`: numbers from 0, in any order. */
export function usePages(
  path: string,
  display: Display,
  pages: readonly number[],
): (index: number) => Entry | undefined {
  const results = useQueries({ queries: pages.map((page) => pageQuery(path, display, page)) })
  const loaded = new Map(pages.map((page, at) => [page, results[at]?.data?.content]))
  return (index) => loaded.get(Math.floor(index / pageLength))?.[index % pageLength]
}

function pageQuery(path: string, display: Display, page: number) {
  return {
    queryKey: ['folder', path, display, page],
    queryFn: ({ signal }: { signal: AbortSignal }) => loadPage(path, display, page, pageLength, { signal }),
  }
}

interface LoadOptions {
  readonly signal?: AbortSignal
  readonly refresh?: boolean
}

function loadPage(path: string, display: Display, page: number, length: number, options: LoadOptions = {}) {
  const { signal, refresh = false } = options
  const password = folderPasswords.of(path)
  return post('/api/fs/list', { path, password, refresh, page: page + 1, per_page: length, ...display }, { signal })
}

/** Number of names that are requested at once by `allNames`. */
const namesLength = 5000

/** The names of all entries of the folder, in their order. */
export async function allNames(path: string, display: Display): Promise<string[]> {
  const names: string[] = []
  for (let page = 0; ; page++) {
    const { content, total } = await loadPage(path, display, page, namesLength)
    for (const { name } of content) names.push(name)
    if (content.length === 0 || names.length >= total) return names
  }
}

/** Has the server read the folder anew from its backend, and shows the result. */
export async function refreshFolder(path: string, display: Display): Promise<void> {
  await loadPage(path, display, 0, 1, { refresh: true })
  await showChanges(path)
}

/** Loads again what is shown of these folders. Call after a change in them. */
export async function showChanges(...paths: readonly string[]): Promise<void> {
  await Promise.all(paths.map((path) => queryClient.invalidateQueries({ queryKey: ['folder', path] })))
}
