/**
 * The names by which entries of a backend with ids are shown. Such a backend may have several entries of one name in a
 * folder, and names that no path can hold. Every entry is shown, each by a name by which it is found again.
 */
import { createHash } from 'node:crypto'
import type { EntryKind } from '../../../src/contract/entry.js'
import { GatewayError } from '../../../src/base/errors.js'

/** An entry of a backend with ids. */
export interface IdItem {
  readonly id: string
  /** The name as the backend reports it. */
  readonly name: string
  readonly kind: Exclude<EntryKind, 'symlink'>
  readonly modified: Date
}

/** Maximum length of a shown name in bytes. */
const maxLength = 255

/** Maximum number of characters that count as the extension of a name. */
const maxExtension = 16

/** Begins an escape: the mark, the code unit in hexadecimal, and a semicolon. */
const mark = '\u201b'

/** Characters that no path can hold (`isListableName`): slashes, NUL, U+FFFD and unpaired surrogates. */
const unshowable = /[/\\\0\ufffd]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
const escapes = new RegExp(`${mark}(2f|5c|0|fffd|d[89a-f][0-9a-f]{2}|201b);`, 'g')

/** Whole names that no path can hold, and what is shown for them. */
const wholeNames: Readonly<Record<string, string>> = {
  '': `${mark};`,
  '.': `${mark}2e;`,
  '..': `${mark}2e;.`,
}

/** The name in a form that a path can hold. Different names have different forms. */
export function escapeName(name: string): string {
  const whole = Object.hasOwn(wholeNames, name) ? wholeNames[name] : undefined
  if (whole !== undefined) return whole
  if (Object.values(wholeNames).includes(name)) return `${mark}201b;${name.slice(1)}`
  return name
    .replace(escapes, (escape) => `${mark}201b;${escape.slice(1)}`)
    .replace(unshowable, (unit) => `${mark}${unit.charCodeAt(0).toString(16)};`)
}

/** The name that is shown in this form, for a new entry. Throws `invalid` if no name is. */
export function unescapeName(shown: string): string {
  const whole = Object.entries(wholeNames).find(([, form]) => form === shown)?.[0]
  const name =
    whole ?? shown.replace(escapes, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)))
  if (escapeName(name) !== shown) throw new GatewayError('invalid', { reason: 'the name has escapes that none needs' })
  return name
}

/**
 * The items of one folder by the names by which they are shown. Of several with one name, the newest has it, and the
 * others have a part that is made of their ids: `name~1a2b3c4d.ext`. It does not depend on their order, nor on which
 * others there are.
 */
export function shownItems<Item extends IdItem>(items: readonly Item[]): ReadonlyMap<string, Item> {
  const shown = new Map<string, Item>()
  const others: Item[] = []
  for (const item of items) {
    const name = escapeName(item.name)
    const rival = shown.get(name)
    if (Buffer.byteLength(name) > maxLength) {
      others.push(item)
    } else if (!rival || isNewer(item, rival)) {
      shown.set(name, item)
      if (rival) others.push(rival)
    } else others.push(item)
  }
  for (const item of others) {
    const name = namesById(item).find((each) => !shown.has(each))
    if (name !== undefined) shown.set(name, item)
  }
  return shown
}

/** The item that is shown by this name, or was shown by it while there was a newer one of its name. */
export function itemNamed<Item extends IdItem>(
  shown: ReadonlyMap<string, Item>,
  items: readonly Item[],
  name: string,
): Item | undefined {
  const found = shown.get(name)
  if (found || !isNameById(name)) return found
  return items.find((item) => namesById(item).includes(name))
}

/** Whether the item may be shown by this name, alone or beside others of its name. */
export function isShownAs(item: IdItem, name: string): boolean {
  return escapeName(item.name) === name || (isNameById(name) && namesById(item).includes(name))
}

/** Whether the name may have a part that is made of an id. */
export function isNameById(name: string): boolean {
  return /~[0-9a-f]{8}/.test(name)
}

function isNewer(item: Item, rival: Item): boolean {
  return +item.modified - +rival.modified > 0 || (+item.modified === +rival.modified && item.id > rival.id)
}

type Item = IdItem

/**
 * Names of the item with a part that is made of its id; the longer ones are for the case that a shorter one is taken.
 */
function namesById({ id, name, kind }: IdItem): readonly string[] {
  const digest = createHash('sha256').update(id).digest('hex')
  const escaped = escapeName(name)
  const dot = kind === 'folder' ? -1 : escaped.lastIndexOf('.')
  const hasExtension = dot > 0 && escaped.length - dot <= maxExtension
  const [base, extension] = hasExtension ? [escaped.slice(0, dot), escaped.slice(dot)] : [escaped, '']
  return [8, 16, 64].map((digits) => {
    const suffix = `~${digest.slice(0, digits)}${extension}`
    return truncated(base, maxLength - Buffer.byteLength(suffix)) + suffix
  })
}

/** The beginning of the text that has at most this many bytes. */
function truncated(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  const characters = Array.from(text.slice(0, bytes))
  while (Buffer.byteLength(characters.join('')) > bytes) characters.pop()
  return characters.join('')
}
