/** A dead property: what a WebDAV client stores beside a file (RFC 4918 §4.1). */
export interface PropertyName {
  readonly namespace: string
  readonly name: string
}
export interface Property extends PropertyName {
  /** The element's content as XML text, self-contained in its namespaces. */
  readonly value: string
  /** `xml:lang` in force where it was set; empty for none. */
  readonly language: string
}
export type PropertyChange = { readonly set: Property } | { readonly remove: PropertyName }

/** Characters that all properties of one resource may take up together, names and all. */
export const largestProperties = 256 * 1024
