/** What can be done with a folder and its selected entries: the same in the toolbar, the menu and by keys. */
import { reporting } from '../components/notices.tsx'
import { addressOf, joined } from '../components/places.ts'
import { download } from './download.ts'
import {
  allNames,
  entryInMemory,
  isAnyUnreadable,
  prefetchFolder,
  type Display,
  type Entry,
} from '../entries/folder.ts'
import type { Rights } from './rights.ts'
import { select, selection } from './selection.ts'

/** The actions that ask in a dialog. */
export type Change = 'newFolder' | 'fromUrls' | 'rename' | 'move' | 'copy' | 'remove' | 'link'
export type Action = Change | 'open' | 'download' | 'selectAll' | 'explain'

export interface Actions {
  readonly allows: (action: Action) => boolean
  readonly start: (action: Action) => void
  readonly open: (entry: Pick<Entry, 'name' | 'is_dir'>) => void
}

interface ActionsOptions {
  readonly path: string
  /** The folder in the whole tree. */
  readonly treePath: string
  readonly display: Display
  readonly total: number
  readonly rights: Rights
  /** Whether the user may ask what others may do. */
  readonly mayExplain: boolean
  readonly navigate: (address: string) => void
  readonly onChange: (change: Change) => void
}

export function folderActions(options: ActionsOptions): Actions {
  const { path, treePath, display, total, rights, mayExplain, navigate, onChange } = options
  const open: Actions['open'] = ({ name, is_dir: isFolder }) => {
    if (isFolder) prefetchFolder(joined(path, name))
    navigate(addressOf(joined(path, name)))
  }
  const isWholeFolder = (names: readonly string[]) =>
    names.length > 1 && names.length === total && display.contains === ''
  return {
    open,
    allows(action) {
      const names = selection.value
      const [name] = names
      switch (action) {
        case 'newFolder':
          return rights.write
        case 'fromUrls':
          return rights.fromUrls
        case 'selectAll':
          return total > 0
        case 'open':
          return names.size === 1
        case 'explain':
          return mayExplain && names.size === 1
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
          if (name !== undefined)
            navigate(`/@manage/explain?${new URLSearchParams({ path: joined(treePath, name) }).toString()}`)
          return
        case 'download':
          void reporting(download(path, treePath, isWholeFolder(names) ? [] : names))
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
