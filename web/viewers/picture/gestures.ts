/** What fingers, the mouse and its wheel do with a picture. */
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Point } from './zoom.ts'

/** Points are relative to the center of the element. */
export interface Gestures {
  /** Two fingers, or the wheel, have changed the size by a factor. */
  readonly onZoom: (factor: number, at: Point) => void
  readonly onMove: (by: Point) => void
  /** Two taps or clicks at one place. */
  readonly onDoubleTap: (at: Point) => void
  /** Whether a finger swipes instead of moving the picture. */
  readonly swipes: boolean
  /** How far a finger has swiped so far; 0: it has been lifted. */
  readonly onSwiping: (distance: number) => void
  /** `way`: 1 for a swipe to the left, which leads on, -1 for one to the right. */
  readonly onSwipe: (way: 1 | -1) => void
}

/** Pixels that a finger moves by itself. */
const slack = 10
/** Pixels after which lifting the finger is a swipe. */
const swipeLength = 60
/** Milliseconds between two taps that are one gesture. */
const betweenTaps = 300
/** How much a pixel of the wheel zooms; with the key that browsers report for two fingers on a touchpad. */
const wheelSpeed = { wheel: 0.002, touchpad: 0.01 } as const
/** Pixels of a line, and of a page, of the wheel (DOM, WheelEvent.deltaMode). */
const wheelUnits: readonly number[] = [1, 20, 400]

export function useGestures(element: RefObject<HTMLElement>, gestures: Gestures): void {
  const latest = useRef(gestures)
  latest.current = gestures
  useLayoutEffect(() => {
    const { current } = element
    return current ? listen(current, () => latest.current) : undefined
  }, [element])
}

/** Returns a function that ends it. */
function listen(element: HTMLElement, gestures: () => Gestures): () => void {
  const ended = new AbortController()
  const on = <Name extends keyof HTMLElementEventMap>(
    name: Name,
    listener: (event: HTMLElementEventMap[Name]) => void,
  ): void => element.addEventListener(name, listener, { signal: ended.signal, passive: false })
  const pointers = new Map<number, Point>()
  let began: Point | undefined
  let isTap = false
  let pointerType = ''
  let tapped: (Point & { readonly time: number }) | undefined

  const pointOf = ({ clientX, clientY }: MouseEvent): Point => {
    const { left, top, width, height } = element.getBoundingClientRect()
    return { x: clientX - left - width / 2, y: clientY - top - height / 2 }
  }

  on('pointerdown', (event) => {
    if (event.button !== 0) return
    pointerType = event.pointerType
    element.setPointerCapture(event.pointerId)
    pointers.set(event.pointerId, pointOf(event))
    isTap = pointers.size === 1
    if (isTap) began = pointOf(event)
    else endSwiping()
  })
  on('pointermove', (event) => {
    const before = pointers.get(event.pointerId)
    if (!before) return
    const now = pointOf(event)
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1]
    pointers.set(event.pointerId, now)
    if (other) {
      pinch(other, before, now)
      return
    }
    if (began && distance(began, now) > slack) isTap = false
    if (isTap) return
    if (gestures().swipes && event.pointerType !== 'mouse') gestures().onSwiping(now.x - (began?.x ?? now.x))
    else gestures().onMove(difference(before, now))
  })
  on('pointerup', (event) => {
    if (!pointers.delete(event.pointerId)) return
    const at = pointOf(event)
    const from = began
    if (pointers.size > 0) return
    endSwiping()
    if (isTap) {
      // The system says what a double click of the mouse is.
      if (event.pointerType !== 'mouse') tap(at, event.timeStamp)
      return
    }
    if (!from || !gestures().swipes || event.pointerType === 'mouse') return
    const { x, y } = difference(from, at)
    if (Math.abs(x) > swipeLength && Math.abs(x) > Math.abs(y)) gestures().onSwipe(x < 0 ? 1 : -1)
  })
  on('pointercancel', (event) => {
    pointers.delete(event.pointerId)
    endSwiping()
  })
  on('dblclick', (event) => {
    // Browsers report two taps too.
    if (pointerType === 'mouse') gestures().onDoubleTap(pointOf(event))
  })
  on('wheel', (event) => {
    event.preventDefault()
    const pixels = event.deltaY * (wheelUnits[event.deltaMode] ?? 1)
    const speed = event.ctrlKey ? wheelSpeed.touchpad : wheelSpeed.wheel
    gestures().onZoom(Math.exp(-pixels * speed), pointOf(event))
  })
  return () => ended.abort()

  function pinch(other: Point, before: Point, now: Point): void {
    const length = distance(other, before)
    if (length > 0) gestures().onZoom(distance(other, now) / length, between(other, now))
    gestures().onMove(difference(between(other, before), between(other, now)))
  }

  function tap(at: Point, time: number): void {
    const isSecond = tapped && time - tapped.time < betweenTaps && distance(tapped, at) < 3 * slack
    tapped = isSecond ? undefined : { ...at, time }
    if (isSecond) gestures().onDoubleTap(at)
  }

  function endSwiping(): void {
    began = undefined
    gestures().onSwiping(0)
  }
}

function difference(from: Point, to: Point): Point {
  return { x: to.x - from.x, y: to.y - from.y }
}

function distance(one: Point, other: Point): number {
  return Math.hypot(other.x - one.x, other.y - one.y)
}

function between(one: Point, other: Point): Point {
  return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 }
}
