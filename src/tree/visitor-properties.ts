/**
 * The dead properties (RFC 4918 §4) that visitors of a share see and set: those that Windows keeps of every file. All
 * others may identify who has stored them.
 */
import type { PropertyChange, PropertyName } from '../database/tables/files.js'

const microsoft = 'urn:schemas-microsoft-com:'

/** A time as Windows sends it, such as `Sat, 20 Jun 2020 07:39:29 GMT`. */
const time = /^[A-Za-z0-9 ,:+-]{1,40}$/

/**
 * The values of these properties, which are short: the account of the share's creator has only so much room for
 * properties.
 */
const values: ReadonlyMap<string, RegExp> = new Map([
  ['Win32CreationTime', time],
  ['Win32LastAccessTime', time],
  ['Win32LastModifiedTime', time],
  ['Win32FileAttributes', /^[0-9a-f]{1,8}$/i],
])

export function isVisitorProperty({ namespace, name }: PropertyName): boolean {
  return namespace === microsoft && values.has(name)
}

/** Whether a visitor may make the change. */
export function isVisitorChange(change: PropertyChange): boolean {
  if ('remove' in change) return isVisitorProperty(change.remove)
  const { name, value, language } = change.set
  return isVisitorProperty(change.set) && language === '' && values.get(name)?.test(value) === true
}
