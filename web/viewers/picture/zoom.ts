/** Where a picture is in the space that it is shown in. Lengths are in pixels of CSS. */

export interface Size {
  readonly width: number
  readonly height: number
}

/** A point, or a way from one point to another. */
export interface Point {
  readonly x: number
  readonly y: number
}

/** How large a picture is, and how far its center is from that of the space. */
export interface Placement extends Point {
  /** 1: it fits the space. */
  readonly scale: number
}

/** A picture, the space, and how far it is turned. */
export interface Frame {
  readonly picture: Size
  readonly space: Size
  /** Clockwise, in quarters. */
  readonly turns: number
}

/** All of the picture can be seen. */
export const fitting: Placement = { scale: 1, x: 0, y: 0 }

/** Pixels of the longer side of a picture of 12 megapixels. */
const cameraSide = 4096

/** Pixels of the longer side of a preview. The server has two sizes; this is the larger one. */
export const previewSide = 1024

/** How many times its own size a picture can have. */
const largest = 8

/** How much of its own size a picture has when it fits. It is never larger than it is by itself. */
export function fitOf({ picture, space, turns }: Frame): number {
  const { width, height } = turned(picture, turns)
  return Math.min(1, space.width / width, space.height / height)
}

/** The size that is assumed until the picture is loaded. `preview`: that of its preview, which has its proportions. */
export function guessedSize(preview: Size): Size {
  const side = Math.max(preview.width, preview.height)
  // The server enlarges no picture: a smaller preview has the size of the picture.
  if (side < previewSide) return preview
  const factor = cameraSide / side
  return { width: preview.width * factor, height: preview.height * factor }
}

/** The size of the picture if it is turned by these quarters. */
function turned({ width, height }: Size, turns: number): Size {
  return turns % 2 === 0 ? { width, height } : { width: height, height: width }
}

/** The placement in which the scale is another one, and the point of the picture that is at `at` stays there. */
export function scaled(placement: Placement, scale: number, at: Point, frame: Frame): Placement {
  const next = Math.min(Math.max(scale, 1), largest / fitOf(frame))
  const factor = next / placement.scale
  const { x, y } = placement
  return bounded({ scale: next, x: at.x - (at.x - x) * factor, y: at.y - (at.y - y) * factor }, frame)
}

/** The placement when another size of the picture is known: it shows the same part, and in its own size if it did. */
export function resized(placement: Placement, before: Frame, now: Frame): Placement {
  const isOwnSize = placement.scale > 1 && placement.scale === 1 / fitOf(before)
  return scaled(placement, isOwnSize ? 1 / fitOf(now) : placement.scale, { x: 0, y: 0 }, now)
}

/** The placement moved by these pixels, as far as something of the picture is out of sight there. */
export function moved({ scale, x, y }: Placement, by: Point, frame: Frame): Placement {
  return bounded({ scale, x: x + by.x, y: y + by.y }, frame)
}

function bounded({ scale, x, y }: Placement, frame: Frame): Placement {
  const { width, height } = turned(frame.picture, frame.turns)
  const size = scale * fitOf(frame)
  const within = (at: number, length: number, room: number) => {
    const limit = Math.max(0, (length * size - room) / 2)
    return Math.min(Math.max(at, -limit), limit)
  }
  return { scale, x: within(x, width, frame.space.width), y: within(y, height, frame.space.height) }
}

/** The scale at which the picture has its own size, or twice that which fits if that is hardly larger. */
export function closeUp(frame: Frame): number {
  const own = 1 / fitOf(frame)
  return own > 1.2 ? own : 2
}
