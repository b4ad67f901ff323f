/** A folder as the console shows it: its entries page by page, as they come into view. */
import { signal } from '@preact/signals'
import { keepPreviousData, useQueries, useQuery } from '@tanstack/preact-query'
import { post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import { Right } from '../api/schema.ts'
import { folderPasswords } from '../session/folder-passwords.ts'

export type FolderPage = Data<'/api/fs/list'>
export type Entry = FolderPage['content'][number]

export type SortColumn = 'name' | 'size' | 'modified'

/** The order of a folder. The server sorts, so that a page is enough. */
interface Sorting {
  /** Empty: the order of the share. */
  readonly sort_by: SortColumn | ''
  readonly sort_direction: 'asc' | 'desc'
}

/** How a folder is shown. */
export interface Display extends Sorting {
  /** A text that the names of the shown entries contain, in any case. Empty: all are shown. */
  readonly contains: string
}

const byName: Sorting = { sort_by: 'name', sort_direction: 'asc' }

/** The order of all folders, until the page is closed. */
export const sorting = signal(byName)

/** Begins with the order of a share if it has one. A column that was chosen in another folder stays otherwise. */
export function beginSorting(hasOwnOrder: boolean): void {
  if (hasOwnOrder) sorting.value = { sort_by: '', sort_direction: 'asc' }
  else if (sorting.peek().sort_by === '') sorting.value = byName
}

/** The file or folder of this path, with what its page needs. */
export function entryQuery(path: string) {
  return {
    queryKey: keys.entry(path),
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      post('/api/fs/get', { path, password: folderPasswords.of(path) }, { signal }),
  }
}

/** Number of entries on a page. */
const pageLength = 200

/** The folder, with the entries of the first page; the other attributes are those of the whole folder. */
export function useFolder(path: string, display: Display) {
  return useQuery({ ...pageQuery(path, display, 0), placeholderData: keepPreviousDisplay(path) })
}

/** Keeps the entries visible while the folder is sorted or filtered in another way. */
function keepPreviousDisplay(path: string) {
  return (previous: FolderPage | undefined, query: { readonly queryKey: readonly unknown[] } | undefined) =>
    query?.queryKey[1] === path ? keepPreviousData(previous) : undefined
}

/** The entries with these indexes and others on their pages; undefined where a page is not loaded. */
export function useEntries(
  path: string,
  display: Display,
  indexes: readonly number[],
): (index: number) => Entry | undefined {
  const pages = [...new Set(indexes.map(pageOf))]
  const results = useQueries({ queries: pages.map((page) => pageQuery(path, display, page)) })
  const loaded = new Map(pages.map((page, at) => [page, results[at]?.data?.content]))
  return (index) => loaded.get(pageOf(index))?.[index % pageLength]
}

/** Loads the first page of a folder that is about to be shown. */
export function prefetchFolder(path: string): void {
  queryClient.query(pageQuery(path, { ...sorting.value, contains: '' }, 0)).catch(() => undefined)
}

/** An entry of a folder by its name, if one of the pages in memory has it. */
export function entryInMemory(path: string, name: string): Entry | undefined {
  for (const [, page] of queryClient.getQueriesData<FolderPage>({ queryKey: keys.folder(path) })) {
    const entry = page?.content.find((each) => each.name === name)
    if (entry) return entry
  }
  return undefined
}

/** Whether the user may not read one of these files of a folder, as far as the pages in memory tell. */
export function isAnyUnreadable(path: string, names: ReadonlySet<string>): boolean {
  return queryClient
    .getQueriesData<FolderPage>({ queryKey: keys.folder(path) })
    .some(([, page]) => page?.content.some(({ name, unreadable }) => unreadable === true && names.has(name)))
}

function pageOf(index: number): number {
  return Math.floor(index / pageLength)
}

function pageQuery(path: string, display: Display, page: number) {
  return {
    queryKey: keys.folder(path, display, page),
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

/** Number of names that are requested at once. */
const namesLength = 5000

/** The names of the entries from one index to another, inclusive. Those in memory are not requested. */
export async function namesBetween(path: string, display: Display, from: number, to: number): Promise<string[]> {
  return namesInMemory(path, display, from, to) ?? loadNames(path, display, from, to)
}

function namesInMemory(path: string, display: Display, from: number, to: number): string[] | undefined {
  const names: string[] = []
  for (let page = pageOf(from); page <= pageOf(to); page++) {
    const loaded = queryClient.getQueryData<FolderPage>(pageQuery(path, display, page).queryKey)
    if (!loaded) return undefined
    const start = page * pageLength
    for (const { name } of loaded.content.slice(Math.max(from - start, 0), to - start + 1)) names.push(name)
  }
  return names
}

async function loadNames(path: string, display: Display, from: number, to: number): Promise<string[]> {
  const names: string[] = []
  for (let page = Math.floor(from / namesLength); page * namesLength <= to; page++) {
    const { content, total } = await loadPage(path, display, page, namesLength)
    const start = page * namesLength
    for (const { name } of content.slice(Math.max(from - start, 0), to - start + 1)) names.push(name)
    if (start + content.length >= total || content.length === 0) break
  }
  return names
}

/** The names of all entries of the folder, in their order. */
export function allNames(path: string, display: Display): Promise<string[]> {
  return loadNames(path, display, 0, Infinity)
}

/** The names and attributes of the entries of a page of any folder, in the order of their names. Pages begin with 0. */
export function listFolder(path: string, page: number, length: number, signal?: AbortSignal): Promise<FolderPage> {
  return loadPage(path, { ...byName, contains: '' }, page, length, signal ? { signal } : {})
}

/** A query for the entries of the folder whose names contain the text, in any case: the first few. */
export function entriesNamed(path: string, text: string) {
  return {
    queryKey: keys.folder(path, 'named', text),
    queryFn: ({ signal }: { signal: AbortSignal }) => loadPage(path, { ...byName, contains: text }, 0, 50, { signal }),
  }
}

/** Whether the user may write in the folder. Rejects if it cannot be listed. */
export async function mayWriteIn(path: string): Promise<boolean> {
  return queryClient.query({
    queryKey: keys.mayWrite(path),
    queryFn: async ({ signal }) => (await listFolder(path, 0, 1, signal)).rights.includes(Right.write),
    staleTime: 30_000,
  })
}

/** Has the server read the folder anew from its backend, and shows the result. */
export async function refreshFolder(path: string, display: Display, mayRefresh: boolean): Promise<void> {
  if (mayRefresh) await loadPage(path, display, 0, 1, { refresh: true })
  await showChanges(path)
}

/** Loads again what is shown of these folders. Call after a change in them. */
export async function showChanges(...paths: readonly string[]): Promise<void> {
  // The pictures or songs of a folder may be many: they are loaded again only with the next one.
  for (const path of paths) {
    void queryClient.invalidateQueries({ queryKey: keys.shownBy(path), refetchType: 'none' })
  }
  const shown = paths.flatMap((path) => [keys.folder(path), keys.folders(path)])
  await Promise.all(shown.map((queryKey) => queryClient.invalidateQueries({ queryKey })))
}
