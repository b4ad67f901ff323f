/** The keys of the viewer of pictures. docs/console.md lists them. */
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { PictureControls } from './picture-bar.tsx'
import type { Point } from './zoom.ts'

/** How much larger or smaller a step is. */
export const step = 1.5

/** Pixels by which an arrow key moves a picture that does not fit. */
const way = 80

/** Where the arrow keys move the picture, so that more is seen on the side of the arrow. */
const arrows: Readonly<Record<string, Point>> = {
  ArrowLeft: { x: way, y: 0 },
  ArrowRight: { x: -way, y: 0 },
  ArrowUp: { x: 0, y: way },
  ArrowDown: { x: 0, y: -way },
}

/**
 * Arrows and Page Up and Down work wherever the focus is, except in fields and dialogs, which use them themselves.
 * Characters work within the viewer only (WCAG 2.2, 2.1.4).
 */
export function usePictureKeys(view: RefObject<HTMLElement>, controls: PictureControls): void {
  const latest = useRef(controls)
  latest.current = controls
  // With the links that are shown: after the paint, the first key could be lost.
  useLayoutEffect(() => {
    function onKeyDown(event: KeyboardEvent): void {
      const { key, target, altKey, ctrlKey, metaKey } = event
      if (altKey || ctrlKey || metaKey) return
      if (!(target instanceof Element) || target.closest('input, select, textarea, dialog')) return
      const action =
        moveOf(key, latest.current) ?? (view.current?.contains(target) ? actionOf(event, latest.current) : undefined)
      if (!action) return
      event.preventDefault()
      action()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [view])
}

function moveOf(key: string, { zoom, previous, next }: PictureControls): (() => void) | undefined {
  const by = arrows[key]
  if (by && zoom.placement.scale > 1) return () => zoom.moveBy(by)
  if (key === 'ArrowLeft' || key === 'PageUp') return previous
  return key === 'ArrowRight' || key === 'PageDown' ? next : undefined
}

function actionOf({ key, target }: KeyboardEvent, controls: PictureControls): (() => void) | undefined {
  const { zoom, slideshow, fullScreen, showsDetails, toggleDetails } = controls
  switch (key) {
    case '+':
    case '=':
      return () => zoom.zoomBy(step)
    case '-':
      return () => zoom.zoomBy(1 / step)
    case '0':
      return zoom.fitAgain
    case '1':
      return zoom.showOwnSize
    case 'r':
      return () => zoom.turn(1)
    case 'R':
      return () => zoom.turn(-1)
    case 's':
      return slideshow.toggle
    case ' ':
      // On a button, the key presses it.
      return target instanceof Element && target.closest('button, a') ? undefined : slideshow.toggle
    case 'i':
      return toggleDetails
    case 'f':
      return fullScreen.toggle
    case 'Escape':
      return showsDetails ? toggleDetails : undefined
    default:
      return undefined
  }
}
