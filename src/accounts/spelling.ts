/** Spellings of one user name. */

/** Maximum characters of a user name that are compared: no account has a longer one. */
const maxLength = 255

/**
 * The name in a form that all spellings share which a directory takes for one name (RFC 4518 §2): they differ in case,
 * in forms of compatibility, in spaces and in characters that are not shown.
 */
export function spellingOf(name: string): string {
  return name
    .normalize('NFKC')
    .replaceAll(/[\s\u0085]+/gu, ' ')
    .replaceAll(/[\p{Default_Ignorable_Code_Point}\p{Cc}]/gu, '')
    .toLowerCase()
    .replaceAll(/ +/g, ' ')
    .trim()
    .slice(0, maxLength)
}
