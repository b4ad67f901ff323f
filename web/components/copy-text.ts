/** Copies text to the clipboard. */
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

/**
 * `shown`: the element that shows the text. Pages without TLS have no clipboard interface, but can copy what is
 * selected. Rejects if the browser forbids both.
 */
export async function copyText(text: string, shown: HTMLElement | null): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text)
  if (shown instanceof HTMLInputElement) shown.select()
  else if (shown) getSelection()?.selectAllChildren(shown)
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- There is no other way without TLS.
  if (!document.execCommand('copy')) throw new Error(texts.copyFailed)
}
