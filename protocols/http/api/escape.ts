/** Escaping of text for HTML, by context: text content, attribute values and scripts. */

/**
 * Replaces each match of `pattern` by a numeric character reference. NUL becomes U+FFFD, because it has no reference.
 */
function referenced(text: string, pattern: RegExp): string {
  return text.replace(pattern, (character) => `&#${character === '\0' ? 0xfffd : character.charCodeAt(0)};`)
}

/**
 * Escapes text content. Also escapes quotes, backslashes and line breaks, because the placeholder of a web client's
 * page may be located in an attribute or in a script.
 */
export function forText(text: string): string {
  return referenced(text, /[&<>"'\\\u0000-\u001f\u2028\u2029]/g)
}

/** Escapes a status text, which clients insert as HTML. Quotes stay readable for those that show it as text. */
export function escapeMarkup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Escapes the value of an attribute, quoted or unquoted. */
export function forAttribute(text: string): string {
  return referenced(text, /[&<>"'`=\\\s\u0000-\u001f]/g)
}

/**
 * A JavaScript string literal for an inline script. Its content cannot end the literal, the script or an enclosing
 * comment.
 */
export function forScript(text: string): string {
  const escaped = text.replace(/[\\'"`<>&$\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
  return `'${escaped}'`
}
