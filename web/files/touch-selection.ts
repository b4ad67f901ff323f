/**
 * Selection by fingers: a long press selects an entry, and taps select further ones. On the background a long press
 * opens the menu of the folder.
 */
import { useEffect, useRef } from 'preact/hooks'
import type { Point } from './file-grid.tsx'

/** Milliseconds after which a touch is a long press: less than those after which browsers show menus. */
const longPress = 420

/** Pixels that a finger may move meanwhile. */
const tolerance = 10

/**
 * Calls `onLongPress` with the place that is pressed, and with the index of its row if there is one. Touch events are
 * used, because browsers of iOS have no `contextmenu` event. Returns a function that tells whether the pointer that was
 * used last is a finger.
 */
export function useTouchSelection(
  rows: { readonly current: HTMLElement | null },
  onLongPress: (at: Point, index: number | undefined) => void,
): () => boolean {
  const isTouch = useRef(false)
  const handler = useRef(onLongPress)
  handler.current = onLongPress
  useEffect(() => {
    const element = rows.current
    if (!element) return
    let pressed: { readonly x: number; readonly y: number; readonly timer: ReturnType<typeof setTimeout> } | undefined
    let isLong = false
    const cancel = (): void => {
      clearTimeout(pressed?.timer)
      pressed = undefined
    }
    const onStart = ({ touches, target }: TouchEvent): void => {
      cancel()
      isLong = false
      const [touch] = touches
      const row = target instanceof Element ? target.closest<HTMLElement>('[data-index]') : null
      if (touches.length !== 1 || !touch) return
      const { clientX: x, clientY: y } = touch
      const timer = setTimeout(() => {
        isLong = true
        handler.current({ x, y }, row ? Number(row.dataset.index) : undefined)
      }, longPress)
      pressed = { x, y, timer }
    }
    const onMove = ({ touches: [touch] }: TouchEvent): void => {
      if (!pressed || !touch) return
      if (Math.hypot(touch.clientX - pressed.x, touch.clientY - pressed.y) > tolerance) cancel()
    }
    const onEnd = (event: TouchEvent): void => {
      cancel()
      // No click follows.
      if (isLong && event.cancelable) event.preventDefault()
    }
    const listening = new AbortController()
    const { signal } = listening
    element.addEventListener('pointerdown', ({ pointerType }) => (isTouch.current = pointerType === 'touch'), {
      signal,
      capture: true,
    })
    element.addEventListener('keydown', () => (isTouch.current = false), { signal, capture: true })
    element.addEventListener('touchstart', onStart, { signal, passive: true })
    element.addEventListener('touchmove', onMove, { signal, passive: true })
    element.addEventListener('touchend', onEnd, { signal, passive: false })
    element.addEventListener('touchcancel', cancel, { signal })
    return () => {
      listening.abort()
      cancel()
    }
  }, [rows])
  return () => isTouch.current
}
