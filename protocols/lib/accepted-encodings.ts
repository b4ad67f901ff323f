/** The codings of an Accept-Encoding header (RFC 9110 §12.5.3), without those of weight zero. */
export function acceptedEncodings(header: string | string[] | undefined): ReadonlySet<string> {
  const parts = (header ?? '').toString().toLowerCase().split(',')
  const accepted = parts.filter((part) => !/;\s*q=0(?:\.0*)?\s*$/.test(part))
  return new Set(accepted.map((part) => part.split(';', 1)[0]?.trim() ?? ''))
}
