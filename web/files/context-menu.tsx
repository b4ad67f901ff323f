/** The menu of the selected entries (ARIA Authoring Practices, menu pattern). */
import * as menu from '@zag-js/menu'
import { normalizeProps, useMachine } from '@zag-js/preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import type { Action, Actions } from './actions.ts'
import type { Point } from './file-grid.tsx'
import './context-menu.css'

const texts = textsOf('files')

const items: readonly Action[] = [
  'open',
  'download',
  'share',
  'link',
  'rename',
  'move',
  'copy',
  'remove',
  'history',
  'explain',
  'selectAll',
]

interface ContextMenuProps {
  readonly at: Point
  readonly actions: Actions
  readonly onClose: () => void
}

export default function ContextMenu({ at, actions, onClose }: ContextMenuProps) {
  // Another object would be another place, to which the menu would move.
  const [anchor] = useState(() => ({ getBoundingClientRect: () => new DOMRect(at.x, at.y, 0, 0) }))
  const service = useMachine(menu.machine, {
    id: useId(),
    open: true,
    loopFocus: true,
    positioning: { placement: 'bottom-start', strategy: 'fixed', gutter: 0, getAnchorElement: () => anchor },
    onSelect: ({ value }) => actions.start(value as Action),
    onOpenChange: ({ open }) => {
      if (!open) onClose()
    },
  })
  const api = menu.connect(service, normalizeProps)
  const content = useRef<HTMLDivElement>(null)
  useFocusReturned(content)
  return (
    <div {...api.getPositionerProps()}>
      <div
        {...api.getContentProps()}
        ref={content}
        class="menu"
        aria-label={texts.files.actions}
        aria-labelledby={undefined}
      >
        {items
          .filter((action) => actions.offers(action) && (action !== 'explain' || actions.allows(action)))
          .map((action) => (
            <div
              key={action}
              {...api.getItemProps({ value: action, disabled: !actions.allows(action) })}
              class="menu-item"
            >
              {texts.files[action]}
            </div>
          ))}
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
