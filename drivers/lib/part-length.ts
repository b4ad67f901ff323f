/** Lengths of the parts of an upload, as the programs of 115 and Aliyundrive choose them. */

const mebibyte = 1024 ** 2
const gibibyte = 1024 ** 3
/** Bytes of the parts of files that are larger than so many bytes; the largest first. */
const lengths: readonly (readonly [above: number, length: number])[] = [
  [1024 * gibibyte, 5 * gibibyte],
  [768 * gibibyte, 109_951_163],
  [512 * gibibyte, 82_463_373],
  [384 * gibibyte, 54_975_582],
  [256 * gibibyte, 41_231_687],
  [128 * gibibyte, 27_487_791],
]

/** Bytes of each part but the last of a file of this size: at most 10,000 parts up to 1 TiB. */
export function partLengthOf(size: number): number {
  return lengths.find(([above]) => size > above)?.[1] ?? 20 * mebibyte
}
