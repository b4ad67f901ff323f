/** What the search dialog finds: folders that were visited, pages, settings, commands, and files of the index. */
import { keepPreviousData, useQuery } from '@tanstack/preact-query'
import { Folder, Languages, LogOut, Rows3, Search, SlidersHorizontal, SunMoon, type LucideIcon } from 'lucide-preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { SettingFlag } from '../api/schema.ts'
import { rows, scheme, type Choice } from '../components/appearance.ts'
import { commands } from '../components/commands.ts'
import { reporting } from '../components/notices.tsx'
import { addressOf, fromTree, joined, nameOf } from '../components/places.ts'
import type { Entry } from '../entries/folder.ts'
import { isAdmin, isGuest, type Me } from '../session/me.ts'
import { recentFolders } from '../session/recent-folders.ts'
import { chosenLanguage, languages, type Language } from '../texts/language.ts'
import { changeLanguage, textFor, textsOf } from '../texts/texts.ts'
import { matching } from './matching.ts'
import { administrationOf, pagesOf } from './pages.ts'

const texts = textsOf('common', 'navigation', 'session', 'settings')

/** Milliseconds without a key press after which the index is searched. */
const searchDelay = 200
/** How many files are shown, and how many of each other group once there are words. */
const mostFiles = 8
const mostOfGroup = 5

export interface Result {
  /** Unlike those of all others. */
  readonly id: string
  readonly name: string
  /** Where it is, in small letters. */
  readonly detail?: string
  readonly Icon?: LucideIcon | undefined
  /** A found file or folder, whose symbol is shown. */
  readonly entry?: Pick<Entry, 'name' | 'type' | 'unreadable'>
  /** Further texts by which it is found. */
  readonly others?: readonly string[]
  /** The address that it leads to, or what it does. */
  readonly target: string | (() => void)
}

export interface ResultGroup {
  readonly name: string
  readonly results: readonly Result[]
}

type Setting = Data<'/api/admin/setting/list'>[number]

/** The groups that have results, for the typed words. `isSearching`: more may come. */
export function useResults(me: Me, words: string, onSignOut: () => void) {
  const { groups } = texts.navigation
  const files = useFiles(me, words.trim())
  const settings = useSettings(me, words.trim())
  const found: readonly ResultGroup[] = [
    { name: groups.folders, results: folderResults(me) },
    { name: groups.pages, results: pageResults(me) },
    { name: groups.commands, results: commandResults(me, onSignOut) },
    { name: groups.settings, results: settings },
  ]
  const most = words.trim() === '' ? Infinity : mostOfGroup
  const local = found.map(({ name, results }) => ({
    name,
    results: matching(results, words, (result) => [result.name, ...(result.others ?? [])]).slice(0, most),
  }))
  const all = [...local, { name: groups.files, results: files.results }]
  return { groups: all.filter(({ results }) => results.length > 0), isSearching: files.isSearching }
}

/** The value of `words` once they have not changed for a while. */
function useSettled(words: string): string {
  const [settled, setSettled] = useState(words)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(words), searchDelay)
    return () => clearTimeout(timer)
  }, [words])
  return settled
}

/** What the index finds, after the way to all of it. Nothing if there is no index. */
function useFiles(me: Me, words: string): { readonly results: readonly Result[]; readonly isSearching: boolean } {
  const settled = useSettled(words)
  const [isOff, setOff] = useState(false)
  const { data, error, isFetching } = useQuery({
    queryKey: keys.found(settled),
    // An answer to other words is dropped, and its request is ended.
    queryFn: ({ signal }) =>
      post('/api/fs/search', { parent: '/', keywords: settled, per_page: mostFiles }, { signal }),
    enabled: settled !== '' && !isOff,
    placeholderData: keepPreviousData,
  })
  useEffect(() => {
    if (error instanceof ApiError && error.error === 'search_off') setOff(true)
  }, [error])
  if (words === '' || isOff) return { results: [], isSearching: false }
  const all: Result = {
    id: 'all',
    name: texts.navigation.searchAll(words),
    Icon: Search,
    target: `/@search?${new URLSearchParams({ words }).toString()}`,
  }
  const entries = settled === '' ? [] : (data?.content ?? [])
  const results = entries.map((entry) => {
    const parent = fromTree(me, entry.parent)
    const path = joined(parent, entry.name)
    return { id: `file ${path}`, name: entry.name, detail: parent, entry, target: addressOf(path) }
  })
  return { results: [all, ...results], isSearching: isFetching || settled !== words }
}

function folderResults(me: Me): readonly Result[] {
  return recentFolders(me)
    .filter((path) => path !== '/')
    .map((path) => {
      const name = nameOf(path)
      return { id: `folder ${path}`, name, detail: path, others: [path], Icon: Folder, target: addressOf(path) }
    })
}

function pageResults(me: Me): readonly Result[] {
  const ofGroups = administrationOf(me).flatMap(({ name: detail, pages }) =>
    pages.map((page) => ({ ...page, detail, others: [detail] })),
  )
  return [...pagesOf(me), ...ofGroups].map(({ address, ...page }) => ({
    ...page,
    id: `page ${address}`,
    target: address,
  }))
}

/** The settings that have an effect, once there are words: there are many. */
function useSettings(me: Me, words: string): readonly Result[] {
  const { data } = useQuery({
    queryKey: keys.allSettings,
    queryFn: () => get('/api/admin/setting/list'),
    enabled: isAdmin(me) && words !== '',
    staleTime: Infinity,
  })
  if (words === '') return []
  return (data ?? []).filter(isChangeable).flatMap(({ key, group }: Setting) => {
    const name = textFor(key, texts.settings.labels)
    const detail = textFor(String(group), texts.settings.groups)
    // What has no name or group in the language is not on a page.
    if (name === undefined || detail === undefined) return []
    const query = new URLSearchParams({ group: String(group), setting: key }).toString()
    const target = `/@manage/settings?${query}`
    return [{ id: `setting ${key}`, name, detail, others: [key], Icon: SlidersHorizontal, target }]
  })
}

function isChangeable({ flag, in_force: isInForce }: Setting): boolean {
  return isInForce && flag !== SettingFlag.readonly && flag !== SettingFlag.deprecated
}

function commandResults(me: Me, onSignOut: () => void): readonly Result[] {
  const ofPage = commands.value.map(({ name, Icon, run }) => ({ id: `command ${name}`, name, Icon, target: run }))
  const choices = [
    ...choiceResults(texts.colors, SunMoon, scheme, texts.schemes),
    ...choiceResults(texts.rows, Rows3, rows, texts.rowHeights),
  ]
  const ofLanguages = (Object.keys(languages) as Language[])
    .filter((tag) => tag !== chosenLanguage.value)
    .map((tag) => ({
      id: `language ${tag}`,
      name: texts.labelled(texts.language, languages[tag]),
      Icon: Languages,
      target: () => void reporting(changeLanguage(tag)),
    }))
  const signOut = { id: 'sign out', name: texts.session.signOut, Icon: LogOut, target: onSignOut }
  return [...ofPage, ...choices, ...ofLanguages, ...(isGuest(me) ? [] : [signOut])]
}

/** The other values of the choice. */
function choiceResults<Value extends string>(
  label: string,
  Icon: LucideIcon,
  { values, chosen }: Choice<Value>,
  names: Readonly<Record<Value, string>>,
): readonly Result[] {
  return values
    .filter((value) => value !== chosen.value)
    .map((value) => ({
      id: `${label} ${value}`,
      name: texts.labelled(label, names[value]),
      Icon,
      target: () => void (chosen.value = value),
    }))
}
