/** What can be done with a folder and its selected entries: the same in the toolbar, the menu and by keys. */
import { reporting } from '../components/notices.tsx'
import { addressOf, inTree, joined } from '../components/places.ts'
import { isAdmin, isGuest, type Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { download } from './download.ts'
import {
  allNames,
  entryInMemory,
  isAnyUnreadable,
  prefetchFolder,
  type Display,
  type Entry,
} from '../entries/folder.ts'
import type { Source } from '../entries/source.ts'
import type { Rights } from './rights.ts'
import { select, selection } from './selection.ts'

/** The actions that ask in a dialog. */
export type Change = 'newFolder' | 'fromUrls' | 'rename' | 'move' | 'copy' | 'remove' | 'link' | 'share' | 'history'
export type Action = Change | 'open' | 'download' | 'downloadAll' | 'selectAll' | 'explain'

export interface Actions {
  /** Whether it is one of the actions here, whatever is selected. */
  readonly offers: (action: Action) => boolean
  /** Whether it can be done now. */
  readonly allows: (action: Action) => boolean
  readonly start: (action: Action) => void
  readonly open: (entry: Pick<Entry, 'name' | 'is_dir'>) => void
}

interface ActionsOptions {
  readonly path: string
  readonly source: Source
  /** Absent for visitors of a share. */
  readonly me: Me | undefined
  readonly display: Display
  readonly total: number
  readonly rights: Rights
  readonly navigate: (address: string) => void
  readonly onChange: (change: Change) => void
}

export function folderActions(options: ActionsOptions): Actions {
  const { path, source, me, display, total, rights, navigate, onChange } = options
  const open: Actions['open'] = ({ name, is_dir: isFolder }) => {
    if (isFolder) prefetchFolder(joined(path, name))
    navigate(addressOf(joined(path, name)))
  }
  const isWholeFolder = (names: readonly string[]) =>
    names.length > 1 && names.length === total && display.contains === ''
  const offers = (action: Action): boolean => {
    switch (action) {
      case 'open':
      case 'download':
      case 'newFolder':
      case 'selectAll':
        return true
      case 'downloadAll':
        return source.kind === 'share'
      case 'link':
      case 'rename':
      case 'move':
      case 'copy':
      case 'remove':
        return me !== undefined
      case 'fromUrls':
        return me !== undefined && may(me, 'offlineDownload')
      case 'history':
        return me !== undefined && !isGuest(me)
      case 'share':
        return me !== undefined && !isGuest(me) && (may(me, 'share') || rights.share)
      case 'explain':
        return me !== undefined && isAdmin(me)
    }
  }
  return {
    open,
    offers,
    allows(action) {
      const names = selection.value
      const [name] = names
      if (!offers(action)) return false
      switch (action) {
        case 'newFolder':
          return rights.write
        case 'fromUrls':
          return rights.fromUrls
        case 'selectAll':
        case 'downloadAll':
          return total > 0
        case 'open':
        case 'history':
        case 'explain':
          return names.size === 1
        case 'share':
          return rights.share && !isAnyUnreadable(path, names)
        case 'link':
          return names.size === 1 && name !== undefined && isReadableFile(entryInMemory(path, name))
        case 'download':
          return names.size > 0 && !isAnyUnreadable(path, names)
        case 'copy':
          return names.size > 0 && rights.copy && !isAnyUnreadable(path, names)
        case 'rename':
        case 'move':
        case 'remove':
          return names.size > 0 && rights[action]
      }
    },
    start(action) {
      const names = [...selection.value]
      const [name] = names
      switch (action) {
        case 'selectAll':
          void reporting(allNames(path, display).then(select))
          return
        case 'open':
          if (name !== undefined) open({ name, is_dir: entryInMemory(path, name)?.is_dir ?? false })
          return
        case 'explain':
          if (name !== undefined && me !== undefined) {
            const fields = { path: inTree(me, joined(path, name)) }
            navigate(`/@manage/explain?${new URLSearchParams(fields).toString()}`)
          }
          return
        case 'download':
          void reporting(download(path, isWholeFolder(names) ? [] : names, source))
          return
        case 'downloadAll':
          void reporting(download(path, [], source))
          return
        default:
          onChange(action)
      }
    },
  }
}

/** Whether a link to the entry can be made, as far as it is known. */
function isReadableFile(entry: Entry | undefined): boolean {
  return entry?.is_dir !== true && entry?.unreadable !== true
}
