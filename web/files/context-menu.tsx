/** A menu at a place of the page: of the selected entries, or of the folder (ARIA Authoring Practices, menu). */
import * as menu from '@zag-js/menu'
import { normalizeProps, useMachine } from '@zag-js/preact'
import { Check } from 'lucide-preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { sorting, type SortColumn } from '../entries/folder.ts'
import { textsOf } from '../texts/texts.ts'
import type { Action, Actions } from './actions.ts'
import type { Point } from './file-grid.tsx'
import { selection } from './selection.ts'
import './context-menu.css'

const texts = textsOf('files')

/** The actions of the selected entries and of the folder, in groups. */
const ofEntries: readonly (readonly Action[])[] = [
  ['open', 'download', 'share', 'link'],
  ['rename', 'move', 'copy', 'cut', 'toClipboard', 'remove'],
  ['selectAll'],
  ['history', 'explain', 'properties'],
]
const ofFolder: readonly (readonly Action[])[] = [
  ['newFolder', 'newFile', 'fromUrls', 'upload', 'uploadFolder'],
  ['paste', 'selectAll', 'refresh'],
  ['downloadAll', 'share', 'properties'],
]

/** Something that is chosen and stays so. */
interface Choice {
  readonly value: string
  readonly text: string
  readonly type: 'radio' | 'checkbox'
  readonly isChosen: boolean
  readonly choose: () => void
}

const columns: readonly SortColumn[] = ['name', 'size', 'modified']

/** The order of all folders. */
function sortChoices(): readonly Choice[] {
  const { sort_by: current, sort_direction: direction } = sorting.value
  return [
    ...columns.map((column): Choice => ({
      value: `sort by ${column}`,
      text: texts.files.sortBy(texts.files[column]),
      type: 'radio',
      isChosen: column === current,
      choose: () => (sorting.value = { sort_by: column, sort_direction: direction }),
    })),
    {
      value: 'descending',
      text: texts.files.descending,
      type: 'checkbox',
      isChosen: direction === 'desc',
      choose: () =>
        (sorting.value = { sort_by: current || 'name', sort_direction: direction === 'desc' ? 'asc' : 'desc' }),
    },
  ]
}

interface ContextMenuProps {
  readonly at: Point
  readonly actions: Actions
  readonly tiles: boolean
  readonly onTiles: (tiles: boolean) => void
  readonly onClose: () => void
}

export default function ContextMenu({ at, actions, tiles, onTiles, onClose }: ContextMenuProps) {
  // Another object would be another place, to which the menu would move.
  const [anchor] = useState(() => ({ getBoundingClientRect: () => new DOMRect(at.x, at.y, 0, 0) }))
  // It stays the menu that was opened.
  const [isOfFolder] = useState(() => selection.peek().size === 0)
  const view: Choice = {
    value: 'tiles',
    text: texts.files.tiles,
    type: 'checkbox',
    isChosen: tiles,
    choose: () => onTiles(!tiles),
  }
  const choices = isOfFolder ? [...sortChoices(), view] : []
  const service = useMachine(menu.machine, {
    id: useId(),
    open: true,
    loopFocus: true,
    // A long menu covers its place rather than leave the window.
    positioning: {
      placement: 'bottom-start',
      strategy: 'fixed',
      gutter: 0,
      overlap: true,
      getAnchorElement: () => anchor,
    },
    onSelect: ({ value }) => {
      const chosen = choices.find((choice) => choice.value === value)
      if (chosen) chosen.choose()
      else actions.start(value as Action)
    },
    onOpenChange: ({ open }) => {
      if (!open) onClose()
    },
  })
  const api = menu.connect(service, normalizeProps)
  const content = useRef<HTMLDivElement>(null)
  useFocusReturned(content)
  const groups = (isOfFolder ? ofFolder : ofEntries)
    .map((group) =>
      group.filter((action) => actions.offers(action) && (action !== 'explain' || actions.allows(action))),
    )
    .filter((group) => group.length > 0)
  return (
    <div {...api.getPositionerProps()}>
      <div
        {...api.getContentProps()}
        ref={content}
        class="menu"
        aria-label={isOfFolder ? texts.files.folderActions : texts.files.actions}
        aria-labelledby={undefined}
      >
        {groups.map((group) => (
          <div key={group[0]} role="presentation" class="menu-group">
            {group.map((action) => (
              <div
                key={action}
                {...api.getItemProps({ value: action, disabled: !actions.allows(action) })}
                class={action === 'remove' ? 'menu-item dangerous' : 'menu-item'}
              >
                {texts.files[action]}
              </div>
            ))}
          </div>
        ))}
        {choices.length > 0 && (
          <div role="group" class="menu-group" aria-label={texts.files.display}>
            {choices.map(({ value, text, type, isChosen }) => (
              <div
                key={value}
                {...api.getOptionItemProps({ value, type, checked: isChosen, closeOnSelect: true })}
                class="menu-item"
              >
                {text}
                {isChosen && <Check aria-hidden size={16} />}
              </div>
            ))}
          </div>
        )}
      </div>
    </div>
  )
}

/** Returns the focus to where it was before the menu opened, unless it has moved elsewhere. */
function useFocusReturned(content: { readonly current: HTMLElement | null }): void {
  useLayoutEffect(() => {
    const opener = document.activeElement
    const element = content.current
    return () => {
      const focused = document.activeElement
      const isOurs = focused === document.body || element?.contains(focused) === true
      if (isOurs && opener instanceof HTMLElement) opener.focus({ preventScroll: true })
    }
  }, [])
}
