/**
 * What a camera has written into a picture (Exif 3.0, CIPA DC-008). A file of others: no more than its first bytes is
 * read, three directories of at most `mostTags` tags, and texts of at most `longestText` bytes.
 */

export interface CameraDetails {
  /** Whether width and height change places when it is shown. */
  readonly isOnSide?: true | undefined
  /** When it was taken, by the clock of the camera: `2026-06-03T06:12:00`. */
  readonly taken?: string | undefined
  readonly camera?: string | undefined
  readonly lens?: string | undefined
  /** The time of exposure, in seconds. */
  readonly exposure?: number | undefined
  /** The f-number. */
  readonly aperture?: number | undefined
  /** The ISO speed. */
  readonly sensitivity?: number | undefined
  /** Millimeters. */
  readonly focalLength?: number | undefined
  /** Degrees; south and west are negative. */
  readonly place?: { readonly latitude: number; readonly longitude: number } | undefined
}

/** Bytes of a file among which details are searched. A segment of JPEG has at most 64 KiB. */
export const searchedBytes = 2 ** 17

const mostTags = 256
const longestText = 200

/** The tags that are read, by the name of the field in the specification. */
const tags = {
  make: 0x010f,
  model: 0x0110,
  orientation: 0x0112,
  exifDirectory: 0x8769,
  gpsDirectory: 0x8825,
  exposureTime: 0x829a,
  fNumber: 0x829d,
  isoSpeed: 0x8827,
  dateTimeOriginal: 0x9003,
  focalLength: 0x920a,
  lensModel: 0xa434,
} as const
const gpsTags = { latitudeRef: 1, latitude: 2, longitudeRef: 3, longitude: 4 } as const

/** Orientations from this one on turn a picture by a quarter (TIFF 6.0, section 8). */
const firstOnSide = 5

/** Types of values, and how many bytes one has. */
const types = { ascii: 2, short: 3, long: 4, rational: 5, utf8: 129 } as const
const sizes: Readonly<Record<number, number>> = {
  [types.ascii]: 1,
  [types.short]: 2,
  [types.long]: 4,
  [types.rational]: 8,
  [types.utf8]: 1,
}

type Values = readonly number[] | string
type Directory = ReadonlyMap<number, Values>

/** Empty if there are no details, and for bytes that are no picture. */
export function cameraDetailsIn(bytes: Uint8Array): CameraDetails {
  const start = startOf(bytes)
  if (start === undefined) return {}
  const tiff = bytes.subarray(start)
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength)
  const isLittle = view.getUint8(0) === 0x49
  const directory = (at: number | undefined) =>
    at === undefined ? new Map<number, Values>() : directoryAt(view, at, isLittle)
  const main = directory(view.getUint32(4, isLittle))
  const exif = directory(numberOf(main, tags.exifDirectory))
  const [model, make] = [textOf(main, tags.model), textOf(main, tags.make)]
  const isOnSide = (numberOf(main, tags.orientation) ?? 1) >= firstOnSide || undefined
  return {
    isOnSide,
    taken: timeOf(textOf(exif, tags.dateTimeOriginal)),
    camera: model !== undefined && make !== undefined && !model.startsWith(make) ? `${make} ${model}` : (model ?? make),
    lens: textOf(exif, tags.lensModel),
    exposure: numberOf(exif, tags.exposureTime),
    aperture: numberOf(exif, tags.fNumber),
    sensitivity: numberOf(exif, tags.isoSpeed),
    focalLength: numberOf(exif, tags.focalLength),
    place: placeOf(directory(numberOf(main, tags.gpsDirectory))),
  }
}

/** Where the header of TIFF is: behind `Exif` in JPEG, HEIF and WebP, behind `eXIf` in PNG. */
function startOf(bytes: Uint8Array): number | undefined {
  const text = new TextDecoder('latin1').decode(bytes)
  const found = /(?:Exif\0\0|eXIf)(?=II\*\0|MM\0\*)/.exec(text)
  if (!found) return undefined
  const start = found.index + found[0].length
  return bytes.length - start >= 8 ? start : undefined
}

function directoryAt(view: DataView, at: number, isLittle: boolean): Directory {
  const found = new Map<number, Values>()
  if (at + 2 > view.byteLength) return found
  const count = Math.min(view.getUint16(at, isLittle), mostTags)
  for (let entry = at + 2; entry < at + 2 + 12 * count && entry + 12 <= view.byteLength; entry += 12) {
    const values = valuesAt(view, entry, isLittle)
    if (values !== undefined) found.set(view.getUint16(entry, isLittle), values)
  }
  return found
}

function valuesAt(view: DataView, entry: number, isLittle: boolean): Values | undefined {
  const type = view.getUint16(entry + 2, isLittle)
  const size = sizes[type]
  if (size === undefined) return undefined
  const count = Math.min(view.getUint32(entry + 4, isLittle), size === 1 ? longestText : 3)
  const length = size * count
  const at = length <= 4 ? entry + 8 : view.getUint32(entry + 8, isLittle)
  if (at + length > view.byteLength) return undefined
  if (size === 1) return new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + at, length))
  return Array.from({ length: count }, (_, index) => {
    const place = at + size * index
    if (type === types.short) return view.getUint16(place, isLittle)
    const whole = view.getUint32(place, isLittle)
    return type === types.rational ? whole / view.getUint32(place + 4, isLittle) : whole
  })
}

/** Up to the NUL that ends it, without control characters. */
function textOf(directory: Directory, tag: number): string | undefined {
  const text = directory.get(tag)
  if (typeof text !== 'string') return undefined
  const shown = text.replace(/\0.*$/s, '').replaceAll(/\p{C}/gu, '').trim()
  return shown === '' ? undefined : shown
}

function numberOf(directory: Directory, tag: number): number | undefined {
  const [value] = directory.get(tag) ?? []
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : undefined
}

function timeOf(text = ''): string | undefined {
  const parts = /^(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)$/.exec(text)
  return parts ? `${parts[1]}-${parts[2]}-${parts[3]}T${parts[4]}` : undefined
}

function placeOf(gps: Directory): CameraDetails['place'] {
  const latitude = degreesOf(gps, gpsTags.latitude, gpsTags.latitudeRef, 'S', 90)
  const longitude = degreesOf(gps, gpsTags.longitude, gpsTags.longitudeRef, 'W', 180)
  return latitude === undefined || longitude === undefined ? undefined : { latitude, longitude }
}

/** Degrees, minutes and seconds as degrees. `negative`: the reference for which they are below zero. */
function degreesOf(gps: Directory, tag: number, reference: number, negative: string, most: number): number | undefined {
  const values = gps.get(tag)
  if (values === undefined || typeof values === 'string') return undefined
  const [degrees = NaN, minutes = 0, seconds = 0] = values
  const value = degrees + minutes / 60 + seconds / 3600
  if (!(value >= 0 && value <= most)) return undefined
  return textOf(gps, reference) === negative ? -value : value
}
