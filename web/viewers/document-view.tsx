/**
 * A file of another program, shown by a preview document in a frame. The frame has an origin of its own, no network and
 * only the bytes of this file.
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { scheme } from '../components/appearance.ts'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { Loaded, part } from '../components/loaded.tsx'
import { documentFor } from '../preview/documents.ts'
import type { FailureReason, Look, PreviewKind, Report } from '../preview/messages.ts'
import { languageInUse } from '../texts/language.ts'
import { textsOf } from '../texts/texts.ts'
import { PreviewSession } from './preview-session.ts'
import { keepReadingPlace, readingPlace } from './reading-places.ts'
import { readPart } from './read-part.ts'
import { largestText } from './viewer.ts'
import './document-view.css'

const texts = textsOf('common', 'viewers')

const TextView = part(() => import('./text-view.tsx'))
const LargeText = part(() => import('./large-text.tsx'))

/** Bytes that are read of a file: all of a document, and the first of a table that is a text. */
const largest: Readonly<Record<PreviewKind, number>> = {
  docx: 50 * 2 ** 20,
  xlsx: 50 * 2 ** 20,
  epub: 50 * 2 ** 20,
  csv: 32 * 2 ** 20,
}

interface DocumentViewProps {
  readonly kind: PreviewKind
  readonly path: string
  /** The URL of the content. */
  readonly source: string
  readonly name: string
  /** The size of the file in bytes. */
  readonly size: number
}

export default function DocumentView(props: DocumentViewProps) {
  const { kind, path, source, name, size } = props
  const [showsSource, setShowsSource] = useState(false)
  if (kind !== 'csv') return <Frame {...props} />
  return (
    <>
      <div class="toolbar">
        <button type="button" onClick={() => setShowsSource(!showsSource)}>
          {showsSource ? texts.preview.asTable : texts.look.source}
        </button>
      </div>
      {!showsSource ? (
        <Frame {...props} />
      ) : (
        <Loaded>
          {size > largestText ? (
            <LargeText source={source} name={name} />
          ) : (
            <TextView path={path} source={source} name={name} isMarkdown={false} />
          )}
        </Loaded>
      )}
    </>
  )
}

type State =
  | { readonly kind: 'loading' }
  | { readonly kind: 'shown'; readonly isCut: boolean }
  | { readonly kind: 'failed'; readonly reason: FailureReason | 'silent' }
  | { readonly kind: 'notRead'; readonly error: unknown }

function Frame({ kind, path, source, name, size }: DocumentViewProps) {
  const frame = useRef<HTMLIFrameElement>(null)
  const session = useRef<PreviewSession>()
  const [state, setState] = useState<State>({ kind: 'loading' })
  const [link, setLink] = useState<string>()
  const limit = largest[kind]

  function onReport(report: Report): void {
    if (report.kind === 'shown') {
      setState({ kind: 'shown', isCut: report.isCut || size > limit })
      if (document.activeElement === document.body) frame.current?.focus()
    } else if (report.kind === 'failed') {
      session.current?.end()
      setState({ kind: 'failed', reason: report.reason })
    } else if (report.kind === 'place') keepReadingPlace(path, report.place)
    // Only what the user has just clicked or pressed makes the document ask.
    else if (report.kind === 'link' && navigator.userActivation.isActive) setLink(report.address)
  }

  useEffect(() => {
    if (!frame.current) return
    if (kind !== 'csv' && size > limit) {
      setState({ kind: 'failed', reason: 'tooLarge' })
      return
    }
    const started = new PreviewSession(frame.current, {
      onReport,
      onSilence: () => setState({ kind: 'failed', reason: 'silent' }),
    })
    session.current = started
    const reading = new AbortController()
    readPart(source, 0, limit, reading.signal)
      .then(({ bytes: { buffer } }) =>
        started.send({ kind: 'open', name, bytes: buffer, look: currentLook(), place: readingPlace(path) }, [buffer]),
      )
      .catch((error: unknown) => reading.signal.aborted || setState({ kind: 'notRead', error }))
    return () => {
      reading.abort()
      started.end()
    }
  }, [source])

  const chosen = scheme.chosen.value
  const language = languageInUse.value
  useEffect(() => {
    void session.current?.send({ kind: 'look', look: currentLook() })
  }, [chosen, language])

  if (state.kind === 'notRead') return <Failure error={state.error} />
  if (state.kind === 'failed') return <p class="loading">{texts.preview[state.reason]}</p>
  return (
    <div class="preview-place">
      {state.kind === 'loading' && <p class="loading skeleton preview-wait">{texts.loading}</p>}
      {state.kind === 'shown' && state.isCut && (
        <p role="status" class="preview-note">
          {texts.preview.cut}
        </p>
      )}
      <iframe
        ref={frame}
        class={state.kind === 'shown' ? 'preview' : 'preview waiting'}
        title={texts.preview.title(name)}
        sandbox="allow-scripts"
        src={documentFor(kind)}
      />
      {link !== undefined && <LinkDialog address={link} onClose={() => setLink(undefined)} />}
    </div>
  )
}

function currentLook(): Look {
  const { cell, chapters, damaged, empty, nextChapter, previousChapter, sheets } = texts.preview
  return {
    scheme: scheme.chosen.peek(),
    accent: getComputedStyle(document.documentElement).getPropertyValue('--accent'),
    locale: languageInUse.peek().locale,
    texts: { cell, chapters, damaged, empty, nextChapter, previousChapter, sheets },
  }
}

/** A file must not lead its reader away: the whole address is shown, and opened by one more click. */
function LinkDialog({ address, onClose }: { readonly address: string; readonly onClose: () => void }) {
  return (
    <Dialog title={texts.preview.openLink} onClose={onClose}>
      <p>{texts.preview.linkOf}</p>
      <p>
        <a href={address} target="_blank" rel="noopener noreferrer" class="outer-address" onClick={onClose}>
          {address}
        </a>
      </p>
    </Dialog>
  )
}
