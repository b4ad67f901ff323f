/** What can be done with a folder and its selected entries: the same in the toolbar, the menu and by keys. */
import { reporting } from '../components/notices.tsx'
import { addressOf, inTree, joined } from '../components/places.ts'
import { isAdmin, isGuest, type Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { chooseUploads } from '../uploads/choose-uploads.ts'
import { clipboardOf, paste, take } from './clipboard.ts'
import { download } from './download.ts'
import {
  allNames,
  entryInMemory,
  isAnyUnreadable,
  prefetchFolder,
  refreshFolder,
  type Display,
  type Entry,
} from '../entries/folder.ts'
import type { Source } from '../entries/source.ts'
import type { Rights } from './rights.ts'
import { select, selection } from './selection.ts'
import { isPossible } from './transfer.ts'

/** The actions that ask or tell in a dialog. */
export type Change =
  | 'newFolder'
  | 'newFile'
  | 'fromUrls'
  | 'rename'
  | 'move'
  | 'copy'
  | 'remove'
  | 'link'
  | 'share'
  | 'history'
  | 'properties'
export type Action =
  | Change
  | 'open'
  | 'download'
  | 'downloadAll'
  | 'upload'
  | 'uploadFolder'
  | 'cut'
  | 'toClipboard'
  | 'paste'
  | 'selectAll'
  | 'refresh'
  | 'explain'

export interface Actions {
  /** Whether it is one of the actions here, whatever is selected. */
  readonly offers: (action: Action) => boolean
  /** Whether the user has the right to it in this folder, as far as that is known, whatever is selected. */
  readonly grants: (action: Action) => boolean
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
  /** Whether the folder is loaded, with the rights. */
  readonly isLoaded: boolean
  readonly navigate: (address: string) => void
  readonly onChange: (change: Change) => void
}

export function folderActions(options: ActionsOptions): Actions {
  const { path, source, me, display, total, rights, isLoaded, navigate, onChange } = options
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
      case 'newFile':
      case 'upload':
      case 'uploadFolder':
      case 'selectAll':
      case 'refresh':
      case 'properties':
        return true
      case 'downloadAll':
        return source.kind === 'share'
      case 'link':
      case 'rename':
      case 'move':
      case 'copy':
      case 'remove':
      case 'cut':
      case 'toClipboard':
      case 'paste':
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
  const hasRight = (action: Action): boolean => {
    switch (action) {
      case 'newFolder':
      case 'newFile':
      case 'upload':
      case 'uploadFolder':
      case 'paste':
        return offers(action) && rights.write
      case 'fromUrls':
      case 'rename':
      case 'move':
      case 'copy':
      case 'remove':
      case 'share':
        return offers(action) && rights[action]
      case 'cut':
        return offers(action) && rights.move
      case 'toClipboard':
        return offers(action) && rights.copy
      default:
        return offers(action)
    }
  }
  return {
    open,
    offers,
    // What a user may usually do is there at once, and does not come a moment later. Visitors may do little.
    grants: (action) => hasRight(action) || (!isLoaded && me !== undefined && offers(action)),
    allows(action) {
      const names = selection.value
      const [name] = names
      if (!hasRight(action)) return false
      switch (action) {
        case 'newFolder':
        case 'newFile':
        case 'fromUrls':
        case 'upload':
        case 'uploadFolder':
        case 'refresh':
        case 'properties':
          return true
        case 'paste': {
          const kept = clipboardOf(me)
          return kept !== undefined && isPossible(kept, path)
        }
        case 'selectAll':
        case 'downloadAll':
          return total > 0
        case 'open':
        case 'history':
        case 'explain':
          return names.size === 1
        case 'share':
          return !isAnyUnreadable(path, names)
        case 'link':
          return names.size === 1 && name !== undefined && isReadableFile(entryInMemory(path, name))
        case 'download':
        case 'copy':
        case 'toClipboard':
          return names.size > 0 && !isAnyUnreadable(path, names)
        case 'rename':
        case 'move':
        case 'remove':
        case 'cut':
          return names.size > 0
      }
    },
    start(action) {
      const names = [...selection.value]
      const [name] = names
      switch (action) {
        case 'selectAll':
          void reporting(allNames(path, display).then(select))
          return
        case 'refresh':
          void reporting(refreshFolder(path, display, rights.write))
          return
        case 'upload':
        case 'uploadFolder':
          chooseUploads(path, action === 'uploadFolder')
          return
        case 'cut':
        case 'toClipboard':
          if (me !== undefined) take(action === 'cut' ? 'move' : 'copy', path, names, me)
          return
        case 'paste': {
          const kept = clipboardOf(me)
          if (kept) void paste(kept, path)
          return
        }
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
