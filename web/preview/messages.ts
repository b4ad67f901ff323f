/**
 * What the console and a preview document tell each other, over a port. The document shows files of others, so the
 * console believes nothing that comes from it: `reportOf` reads what it sent.
 */

export type PreviewKind = 'docx' | 'xlsx' | 'epub' | 'csv'

/** Texts of a preview document, in the language of the console. */
export interface PreviewTexts {
  readonly cell: string
  readonly chapters: string
  readonly damaged: string
  readonly empty: string
  readonly nextChapter: string
  readonly previousChapter: string
  readonly sheets: string
}

/** How the console looks. */
export interface Look {
  readonly scheme: string
  /** The value of `--accent`. */
  readonly accent: string
  /** The tag of the language (BCP 47), with the region by which numbers and dates are formatted. */
  readonly locale: string
  readonly texts: PreviewTexts
}

/** A place in a book: the number of the chapter from 0, and how much of it is above. */
export interface Place {
  readonly chapter: number
  /** From 0 to 1. */
  readonly share: number
}

/** From the console. */
export type Order =
  | {
      readonly kind: 'open'
      readonly name: string
      readonly bytes: ArrayBuffer
      readonly look: Look
      readonly place: Place | undefined
    }
  | { readonly kind: 'look'; readonly look: Look }
  /** To be answered by `alive`. */
  | { readonly kind: 'ping' }

/** `damaged`: the file is not what its name says, or is broken. `protected`: it can be read with a password only. */
export const failureReasons = ['damaged', 'protected', 'tooLarge'] as const
export type FailureReason = (typeof failureReasons)[number]

/** From the document. */
export type Report =
  | { readonly kind: 'alive' }
  /** `isCut`: only the first part of the file is shown. */
  | { readonly kind: 'shown'; readonly isCut: boolean }
  | { readonly kind: 'failed'; readonly reason: FailureReason }
  /** The user has chosen a link to another site. */
  | { readonly kind: 'link'; readonly address: string }
  | { readonly kind: 'place'; readonly place: Place }

const longestAddress = 4096
const mostChapters = 100_000

/** What the document sent, if it is a report; undefined: it is not. */
export function reportOf(sent: unknown): Report | undefined {
  if (typeof sent !== 'object' || sent === null) return undefined
  const { kind, isCut, reason, address, place } = sent as Readonly<Record<string, unknown>>
  switch (kind) {
    case 'alive':
      return { kind }
    case 'shown':
      return { kind, isCut: isCut === true }
    case 'failed':
      return { kind, reason: failureReasons.find((each) => each === reason) ?? 'damaged' }
    case 'link': {
      const link = typeof address === 'string' ? outerAddress(address) : undefined
      return link === undefined ? undefined : { kind, address: link }
    }
    case 'place': {
      const read = placeOf(place)
      return read && { kind, place: read }
    }
    default:
      return undefined
  }
}

/** The place, if it is one. */
export function placeOf(value: unknown): Place | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { chapter, share } = value as Readonly<Record<string, unknown>>
  const isChapter = typeof chapter === 'number' && Number.isInteger(chapter) && chapter >= 0 && chapter < mostChapters
  return isChapter && typeof share === 'number' && share >= 0 && share <= 1 ? { chapter, share } : undefined
}

/** The address in its normal form, if it is of the web or of a mailbox. */
export function outerAddress(address: string): string | undefined {
  if (address.length > longestAddress) return undefined
  try {
    const url = new URL(address)
    return ['https:', 'http:', 'mailto:'].includes(url.protocol) ? url.href : undefined
  } catch {
    return undefined
  }
}
