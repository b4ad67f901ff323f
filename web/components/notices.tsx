/** Short reports of what has succeeded or failed, announced to screen readers. */
import { signal } from '@preact/signals'
import { X } from 'lucide-preact'
import { Link } from 'wouter-preact'
import { noteEndOfSession } from '../api/queries.ts'
import { textsOf } from '../texts/texts.ts'
import { messageOf } from './error-text.ts'
import './notices.css'

const texts = textsOf('common')

interface Notice {
  readonly id: number
  readonly kind: 'success' | 'failure'
  readonly text: string
  readonly link?: NoticeLink | undefined
}

/** A page of the console that shows more. */
interface NoticeLink {
  readonly href: string
  readonly text: string
}

/** Milliseconds for which a success is shown. A failure is shown until it is closed. */
const shownFor = 6000

const notices = signal<readonly Notice[]>([])
let lastId = 0

/** Reports a success. */
export function report(text: string, link?: NoticeLink): void {
  const notice = add('success', text, link)
  setTimeout(() => close(notice), shownFor)
}

/** Reports a failure. */
export function reportFailure(error: unknown): void {
  noteEndOfSession(error)
  add('failure', messageOf(error))
}

/**
 * Awaits the work. Reports its failure, or closes the failures reported before it. Resolves to whether it succeeded.
 */
export async function reporting(work: Promise<unknown>, success?: string): Promise<boolean> {
  const last = lastId
  try {
    await work
  } catch (error) {
    reportFailure(error)
    return false
  }
  notices.value = notices.value.filter(({ id, kind }) => kind === 'success' || id > last)
  if (success !== undefined) report(success)
  return true
}

export function clearNotices(): void {
  notices.value = []
}

function add(kind: Notice['kind'], text: string, link?: NoticeLink): Notice {
  const notice = { id: ++lastId, kind, text, link }
  notices.value = [...notices.value.slice(-4), notice]
  return notice
}

function close({ id }: Notice): void {
  notices.value = notices.value.filter((notice) => notice.id !== id)
}

export function Notices() {
  return (
    <div class="notices">
      <div role="status">
        {notices.value
          .filter(({ kind }) => kind === 'success')
          .map((notice) => (
            <p key={notice.id} class="notice">
              {notice.text}
              {notice.link && <Link href={notice.link.href}>{notice.link.text}</Link>}
            </p>
          ))}
      </div>
      {notices.value
        .filter(({ kind }) => kind === 'failure')
        .map((notice) => (
          <div key={notice.id} role="alert" class="notice error">
            <span>{notice.text}</span>
            <button type="button" class="quiet icon" aria-label={texts.close} onClick={() => close(notice)}>
              <X aria-hidden size={16} />
            </button>
          </div>
        ))}
    </div>
  )
}
