/** A video or a sound. The browser seeks in it by requests for ranges. */
import { useState } from 'preact/hooks'
import { joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import type { ShownFile } from './file-page.tsx'
import { useSource } from '../entries/source.ts'
import './media-view.css'

const texts = textsOf('viewers')

interface MediaViewProps {
  readonly kind: 'video' | 'audio'
  readonly source: string
  readonly file: ShownFile
  readonly folder: string
}

export function MediaView({ kind, source, file, folder }: MediaViewProps) {
  const { previewUrl } = useSource()
  const [failed, setFailed] = useState(false)
  if (failed) return <p class="loading">{texts.look.none}</p>
  const attributes = {
    src: source,
    controls: true,
    preload: 'metadata',
    'aria-label': file.name,
    onError: () => setFailed(true),
  } as const
  if (kind === 'audio') return <audio {...attributes} />
  return (
    <video {...attributes} class="film">
      {subtitlesOf(file).map(({ name, sign }) => (
        <track key={name} kind="subtitles" label={name} src={previewUrl(joined(folder, name), sign)} />
      ))}
    </video>
  )
}

/** The files beside the film that browsers read as subtitles. */
function subtitlesOf({ related }: ShownFile) {
  return (
    related?.filter((file) => !file.is_dir && file.unreadable !== true && file.name.toLowerCase().endsWith('.vtt')) ??
    []
  )
}
