/** The region with the progress of all uploads. */
import { useContext, useEffect, useId, useState } from 'preact/hooks'
import { ChevronDown, ChevronUp, X } from 'lucide-preact'
import { formatDuration, formatSize, formatSpeed } from '../texts/format.ts'
import { SessionEnded } from '../components/session-ended.ts'
import { textsOf } from '../texts/texts.ts'
import { ConflictDialog } from './conflict-dialog.tsx'
import { shownConflict, summary, type Summary } from './upload-list.ts'
import { UploadRows } from './upload-rows.tsx'
import { belongTo, cancelAll, clear, owner, pauseAll, resumeAll, retryAll } from './upload-queue.ts'
import './uploads-region.css'

const texts = textsOf('common', 'uploads')

export interface UploadsProps {
  /** The name of the user whose uploads they are; empty for visitors of a share. */
  readonly username: string
  /** Whether nobody is signed in. */
  readonly isGuest: boolean
}

export default function UploadsRegion({ username, isGuest }: UploadsProps) {
  const heading = useId()
  const [isOpen, setOpen] = useState(true)
  const hasEnded = useContext(SessionEnded)
  useEffect(() => belongTo(username, isGuest), [username])
  useEffect(() => {
    if (hasEnded) pauseAll()
  }, [hasEnded])
  const all = summary.value
  if (all.count === 0 || owner.value !== username) return null
  return (
    <section class="uploads" aria-labelledby={heading}>
      <div class="uploads-head">
        <h2 id={heading}>{texts.uploads.region}</h2>
        <button
          type="button"
          class="quiet icon"
          aria-label={texts.uploads.details}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? <ChevronDown aria-hidden size={16} /> : <ChevronUp aria-hidden size={16} />}
        </button>
        <span class="uploads-summary">{summaryText(all)}</span>
        <AllButtons all={all} />
      </div>
      <progress aria-label={texts.uploads.total} max={all.size + all.count} value={all.sent + all.finished} />
      {all.failed > 0 && (
        <p role="alert" class="error">
          {texts.uploads.failed(all.failed)}
        </p>
      )}
      {isOpen && <UploadRows />}
      {shownConflict.value && <ConflictDialog key={shownConflict.value.id} upload={shownConflict.value} />}
    </section>
  )
}

function AllButtons({ all }: { readonly all: Summary }) {
  return (
    <>
      {all.active > 0 && (
        <button type="button" onClick={pauseAll}>
          {texts.uploads.pauseAll}
        </button>
      )}
      {all.paused > 0 && (
        <button type="button" onClick={resumeAll}>
          {texts.uploads.resumeAll}
        </button>
      )}
      {all.failed > 0 && (
        <button type="button" onClick={retryAll}>
          {texts.uploads.retryAll}
        </button>
      )}
      {all.active + all.paused > 0 ? (
        <button type="button" onClick={cancelAll}>
          {texts.uploads.cancelAll}
        </button>
      ) : (
        <button type="button" class="quiet icon" aria-label={texts.close} onClick={clear}>
          <X aria-hidden size={16} />
        </button>
      )}
    </>
  )
}

function summaryText({ finished, count, sent, size, speed, active }: Summary): string {
  const done = texts.uploads.finished(finished, count)
  if (active === 0) return done
  const remaining = speed === undefined || speed === 0 ? undefined : (size - sent) / speed
  return [
    done,
    texts.uploads.sentOf(formatSize(sent), formatSize(size)),
    speed !== undefined && formatSpeed(speed),
    remaining !== undefined && texts.uploads.timeLeft(formatDuration(remaining)),
  ]
    .filter((part) => part !== false)
    .join(' · ')
}
