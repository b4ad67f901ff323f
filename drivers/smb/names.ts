/**
 * File names on the wire. Characters that Windows does not allow are mapped to the Unicode private use area, as macOS
 * and Linux (`mapposix`, Documentation/admin-guide/cifs/usage.rst) do. Of device names, the third character is mapped,
 * as Cygwin does.
 */
import { foldCase, refusedName, segmentsOf, type Path } from '../../src/base/path.js'

/**
 * First code point of the mapped special characters. Control characters (U+0001 to U+001F) are mapped to U+F001 to
 * U+F01F.
 */
const specialsStart = 0xf020
const specials = '"*:<>?'
const bar = { character: '|', mapped: '\uf027' } as const
const trailingSpace = '\uf028'
const trailingDot = '\uf029'

/** Names that Windows reserves for devices, with any extension. */
const device =
  /^(?:con|prn|aux|nul|com[1-9\u00b9\u00b2\u00b3]|lpt[1-9\u00b9\u00b2\u00b3]|conin\$|conout\$)(?:\s*(?:\..*)?)$/isu
/** Offset of the mapped third character of a device name. */
const thirdStart = 0xf000
const mappedThird = /^(..)([\uf020-\uf07f])/su

/** Names in 8.3 form, which the server may have generated for files with other names. */
const shortName = /^[^.]{1,6}~\d+(?:\..{0,3})?$/u

/** Converts a name to its wire form. */
export function wireName(name: string): string {
  let wire = name.replace(/[\x01-\x1f]/g, (match) => String.fromCharCode(0xf000 + match.charCodeAt(0)))
  wire = wire.replace(/["*:<>?]/g, (match) => String.fromCharCode(specialsStart + specials.indexOf(match)))
  wire = wire.replaceAll(bar.character, bar.mapped)
  if (wire.endsWith(' ')) wire = wire.slice(0, -1) + trailingSpace
  if (wire.endsWith('.')) wire = wire.slice(0, -1) + trailingDot
  if (device.test(wire)) wire = wire.slice(0, 2) + String.fromCharCode(thirdStart + wire.charCodeAt(2)) + wire.slice(3)
  return wire
}

/** Converts a name from the server. A name that `wireName` would not restore becomes a name that the core refuses. */
export function nameFromWire(wire: string): string {
  let name = wire.replace(mappedThird, (match, start: string, third: string) => {
    const plain = start + String.fromCharCode(third.charCodeAt(0) - thirdStart)
    return device.test(plain + wire.slice(3)) ? plain : match
  })
  name = name.replace(/[\uf001-\uf01f]/g, (match) => String.fromCharCode(match.charCodeAt(0) - 0xf000))
  name = name.replace(/[\uf020-\uf025]/g, (match) => specials.charAt(match.charCodeAt(0) - specialsStart))
  name = name.replaceAll(bar.mapped, bar.character)
  if (name.endsWith(trailingSpace)) name = `${name.slice(0, -1)} `
  if (name.endsWith(trailingDot)) name = `${name.slice(0, -1)}.`
  return wireName(name) === wire ? name : refusedName(wire)
}

/** The wire path of `wire` in `folder`, which is empty for the root of the share. */
export function joinWirePath(folder: string, wire: string): string {
  return folder === '' ? wire : `${folder}\\${wire}`
}

/** The wire path of the parent folder; empty for a single name. */
export function folderOf(wirePath: string): string {
  return wirePath.slice(0, Math.max(0, wirePath.lastIndexOf('\\')))
}

/** The spellings to look up for a name: as it is, composed (NFC) and decomposed (NFD). */
export function normalizationForms(name: string): readonly string[] {
  return [...new Set([name, name.normalize('NFC'), name.normalize('NFD')])]
}

/**
 * Whether the server may store this path in another spelling, or may resolve a short name in it to another file. Each
 * name of such a path must be looked up.
 */
export function isAmbiguous(path: Path): boolean {
  return segmentsOf(path).some((name) => shortName.test(name) || name.normalize('NFC') !== name.normalize('NFD'))
}

/** Whether two names or paths are equal without regard to case and Unicode normalization. */
export function isSameName(one: string, other: string): boolean {
  return foldCase(one) === foldCase(other)
}
