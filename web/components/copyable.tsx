/** A text that is meant to be copied: an address, a command, a password. */
import { useRef } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import { copyText } from './copy-text.ts'
import { reporting } from './notices.tsx'
import './copyable.css'

const texts = textsOf('common')

export function Copyable({ text }: { readonly text: string }) {
  const shown = useRef<HTMLElement>(null)
  return (
    <p class="copyable">
      <code ref={shown}>{text}</code>
      <button type="button" onClick={() => void reporting(copyText(text, shown.current), texts.copied)}>
        {texts.copyText}
      </button>
    </p>
  )
}
