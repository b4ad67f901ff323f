/** What is being played, with the controls of the browser, which seeks by requests for ranges. */
import { Music } from 'lucide-preact'
import type { RefObject } from 'preact'
import { useEffect } from 'preact/hooks'
import { useSource } from '../../entries/source.ts'
import type { ShownFile } from '../file-page.tsx'
import { useSteadyUrl } from '../steady-url.ts'

interface PlayingProps {
  readonly kind: 'video' | 'audio'
  readonly path: string
  readonly file: ShownFile
  readonly element: RefObject<HTMLMediaElement>
  readonly goesOn: { readonly current: boolean }
  readonly onEnded: () => void
  readonly onFailed: () => void
  readonly onPrevious: (() => void) | undefined
  readonly onNext: (() => void) | undefined
}

export function Playing(props: PlayingProps) {
  const { kind, path, file, element, goesOn, onEnded, onFailed, onPrevious, onNext } = props
  const source = useSteadyUrl(path, useSource().previewUrl(path, file.sign))
  useEffect(() => {
    // The browser may refuse what the user has not started.
    if (goesOn.current) void element.current?.play().catch(() => undefined)
  }, [source, element, goesOn])
  useMediaKeys(file.name, onPrevious, onNext)
  const attributes = {
    src: source,
    controls: true,
    preload: 'metadata',
    'aria-label': file.name,
    onEnded,
    onError: onFailed,
  } as const
  if (kind === 'video') {
    return <video {...attributes} ref={element as RefObject<HTMLVideoElement>} class="film" playsInline />
  }
  return (
    <div class="sound">
      <span class="sound-cover">
        <Music aria-hidden size={72} />
      </span>
      <p class="sound-name">{file.name}</p>
      <audio {...attributes} ref={element} />
    </div>
  )
}

/** The keys for media of a keyboard or headset, and what the system shows (Media Session API). */
function useMediaKeys(title: string, onPrevious: (() => void) | undefined, onNext: (() => void) | undefined): void {
  useEffect(() => {
    if (!('mediaSession' in navigator)) return
    const { mediaSession } = navigator
    mediaSession.metadata = new MediaMetadata({ title })
    mediaSession.setActionHandler('previoustrack', onPrevious ?? null)
    mediaSession.setActionHandler('nexttrack', onNext ?? null)
    return () => {
      mediaSession.metadata = null
      mediaSession.setActionHandler('previoustrack', null)
      mediaSession.setActionHandler('nexttrack', null)
    }
  })
}
