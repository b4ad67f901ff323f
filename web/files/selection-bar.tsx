/** What can be done with the selected entries: in the bar of the folder, on phones below its entries. */
import {
  Copy,
  Download,
  Ellipsis,
  FolderInput,
  Link as LinkIcon,
  Pencil,
  Share2,
  Trash2,
  X,
  type LucideIcon,
} from 'lucide-preact'
import { useMedia } from '../components/media.ts'
import { textsOf } from '../texts/texts.ts'
import { ActionButton } from './action-button.tsx'
import type { Action, Actions } from './actions.ts'
import { focusGrid, type Point } from './file-grid.tsx'
import { clearSelection, selection } from './selection.ts'
import './selection-bar.css'

const texts = textsOf('files')

/** The actions with a button. The menu has all of them. */
const wide: readonly Action[] = ['download', 'share', 'rename', 'move', 'copy', 'remove', 'link']
const narrow: readonly Action[] = ['download', 'share', 'move', 'remove']

const icons: Partial<Readonly<Record<Action, LucideIcon>>> = {
  download: Download,
  share: Share2,
  link: LinkIcon,
  rename: Pencil,
  move: FolderInput,
  copy: Copy,
  remove: Trash2,
}

/** Whether the bar is below the entries. */
export function useBarBelow(): boolean {
  return useMedia('(max-width: 48rem)')
}

/** The number of selected entries, as a button that selects none. */
export function SelectionCount() {
  return (
    <button
      type="button"
      class="quiet"
      title={texts.files.clearSelection}
      onClick={() => {
        clearSelection()
        focusGrid()
      }}
    >
      <X aria-hidden size={16} />
      {texts.files.selected(selection.value.size)}
    </button>
  )
}

interface SelectionToolsProps {
  readonly actions: Actions
  /** Opens the menu of the selected entries, or of the folder if there are none. */
  readonly onMenu: (at: Point) => void
}

/** The bar below the entries, where there is one. */
export function BarBelow(props: SelectionToolsProps) {
  return useBarBelow() && selection.value.size > 0 ? <SelectionTools {...props} isBelow /> : null
}

export function SelectionTools({
  actions,
  onMenu,
  isBelow = false,
}: SelectionToolsProps & { readonly isBelow?: boolean }) {
  return (
    <div class={isBelow ? 'selection-tools below' : 'selection-tools'}>
      {(isBelow ? narrow : wide).map((action) => (
        <ActionButton key={action} actions={actions} action={action} Icon={icons[action]} />
      ))}
      <MoreButton onMenu={onMenu} />
    </div>
  )
}

/** Opens the menu, which has every action. */
export function MoreButton({ onMenu }: Pick<SelectionToolsProps, 'onMenu'>) {
  return (
    <button
      type="button"
      aria-haspopup="menu"
      onClick={({ currentTarget }) => {
        const { left, bottom } = currentTarget.getBoundingClientRect()
        onMenu({ x: left, y: bottom })
      }}
    >
      <Ellipsis aria-hidden size={16} />
      <span class="text">{texts.files.more}</span>
    </button>
  )
}
