/** The placement of the picture of a path. That of another path begins anew. */
import type { RefObject } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import {
  closeUp,
  fitOf,
  fitting,
  guessedSize,
  moved,
  resized,
  scaled,
  type Frame,
  type Placement,
  type Point,
  type Size,
} from './zoom.ts'

interface Shown {
  readonly path: string
  /** Undefined until it, or its preview, is loaded. */
  readonly picture?: Size
  /** Whether only the preview is loaded. */
  readonly isGuessed: boolean
  readonly placement: Placement
  /** Clockwise, in quarters. They are not reduced, so that a turn moves by the shortest way. */
  readonly turns: number
}

const center: Point = { x: 0, y: 0 }

/** `stage`: the element in which the picture is shown. */
export function useZoom(path: string, stage: RefObject<HTMLElement>) {
  const [last, setLast] = useState<Shown>()
  const space = useSizeOf(stage)
  const begin: Shown = { path, isGuessed: false, placement: fitting, turns: 0 }
  const shown = last?.path === path ? last : begin
  const frameOf = ({ picture, turns }: Shown): Frame | undefined => picture && space && { picture, space, turns }
  const change = (next: (shown: Shown, frame: Frame) => Partial<Shown>) =>
    setLast((last) => {
      const now = last?.path === path ? last : begin
      const frame = frameOf(now)
      return frame ? { ...now, ...next(now, frame) } : now
    })
  const place = (next: (placement: Placement, frame: Frame) => Placement) =>
    change(({ placement }, frame) => ({ placement: next(placement, frame) }))
  const frame = frameOf(shown)
  return {
    ...shown,
    /** How much of its own size the picture has when it fits; undefined until that is known. */
    fit: frame && fitOf(frame),
    /** `size`: that of the picture, or of its preview. */
    onLoad: (size: Size, isPreview: boolean) =>
      setLast((last) => {
        const shown = last?.path === path ? last : begin
        const next = { ...shown, picture: isPreview ? guessedSize(size) : size, isGuessed: isPreview }
        const [before, now] = [frameOf(shown), frameOf(next)]
        return before && now ? { ...next, placement: resized(shown.placement, before, now) } : next
      }),
    zoomBy: (factor: number, at = center) =>
      place((placement, frame) => scaled(placement, placement.scale * factor, at, frame)),
    moveBy: (by: Point) => place((placement, frame) => moved(placement, by, frame)),
    fitAgain: () => place(() => fitting),
    showOwnSize: () => place((placement, frame) => scaled(placement, 1 / fitOf(frame), center, frame)),
    /** Shows the part at a point, or all again. */
    toggle: (at: Point) =>
      place((placement, frame) => (placement.scale > 1 ? fitting : scaled(placement, closeUp(frame), at, frame))),
    turn: (quarters: 1 | -1) => change(({ turns }) => ({ turns: turns + quarters, placement: fitting })),
  }
}

function useSizeOf(element: RefObject<HTMLElement>): Size | undefined {
  const [size, setSize] = useState<Size>()
  useLayoutEffect(() => {
    if (!element.current) return
    const observer = new ResizeObserver(([entry]) => entry && setSize(entry.contentRect))
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [element])
  return size
}
