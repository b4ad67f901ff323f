/** Text put into a page of HTML: how it is written depends on where it lands. */

/** The text as a reference to each of its characters in `pattern`. NUL has no reference: it becomes the replacement character. */
function referenced(text: string, pattern: RegExp): string {
  return text.replace(pattern, (character) => `&#${character === '\0' ? 0xfffd : character.charCodeAt(0)};`)
}

/**
 * Between tags. Quotes, backslashes and line breaks are written as references too: should a page hold its mark in an
 * attribute or in a script, the text still cannot end it.
 */
export function forText(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are among what must not pass
  return referenced(text, /[&<>"'\\\u0000-\u001f\u2028\u2029]/g)
}

/** The value of an attribute, quoted or not. */
export function forAttribute(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are among what must not pass
  return referenced(text, /[&<>"'`=\\\s\u0000-\u001f]/g)
}

/** A string in a script of the page, with its quotes. Nothing in it ends the string, the script, or a comment around it. */
export function forScript(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are among what must not pass
  const escaped = text.replace(/[\\'"`<>&$\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
  return `'${escaped}'`
}
