/** The page of a file: its content if the console can show it, and its facts. */
import { Download, History, Link2, Share2 } from 'lucide-preact'
import { useState } from 'preact/hooks'
import type { Data } from '../api/client.ts'
import { EntryIcon } from '../entries/entry-icon.tsx'
import { formatSize, formatTime } from '../texts/format.ts'
import { Loaded, part } from '../components/loaded.tsx'
import { parentOf } from '../components/places.ts'
import { useSource } from '../entries/source.ts'
import { isGuest, type Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { textsOf } from '../texts/texts.ts'
import { useSteadyUrl } from './steady-url.ts'
import { viewerOf, type Viewer } from './viewer.ts'
import './file-page.css'

const texts = textsOf('common', 'files', 'viewers')

const LinkDialog = part(async () => ({ default: (await import('./link-dialog.tsx')).LinkDialog }))
const HistoryDialog = part(async () => ({ default: (await import('./history-dialog.tsx')).HistoryDialog }))
const ShareDialog = part(async () => ({ default: (await import('../shares/share-dialog.tsx')).ShareDialog }))
const PictureView = part(() => import('./picture/picture-view.tsx'))
const MediaView = part(() => import('./media/media-view.tsx'))
const PlaylistView = part(() => import('./media/playlist-view.tsx'))
const TextView = part(() => import('./text-view.tsx'))
const PdfView = part(() => import('./pdf-view.tsx'))
const LargeText = part(() => import('./large-text.tsx'))
const DocumentView = part(() => import('./document-view.tsx'))

export type ShownFile = Data<'/api/fs/get'>

interface FilePageProps {
  readonly path: string
  readonly file: ShownFile
  /** Absent for visitors of a share. */
  readonly me?: Me | undefined
}

export function FilePage({ path, file, me }: FilePageProps) {
  const [dialog, setDialog] = useState<'link' | 'share' | 'history'>()
  const { downloadUrl } = useSource()
  const close = () => setDialog(undefined)
  return (
    <section class="file">
      <header class="toolbar">
        <EntryIcon entry={file} />
        <h1>{file.name}</h1>
        <span class="muted">{texts.facts([formatSize(file.size), formatTime(file.modified)])}</span>
        <span class="space" />
        {me && !isGuest(me) && (
          <button type="button" onClick={() => setDialog('history')}>
            <History aria-hidden size={16} /> <span class="text">{texts.files.history}</span>
          </button>
        )}
        {file.unreadable !== true && (
          <>
            {me && !isGuest(me) && may(me, 'share') && (
              <button type="button" onClick={() => setDialog('share')}>
                <Share2 aria-hidden size={16} /> <span class="text">{texts.files.share}</span>
              </button>
            )}
            {me && (
              <button type="button" onClick={() => setDialog('link')}>
                <Link2 aria-hidden size={16} /> <span class="text">{texts.files.link}</span>
              </button>
            )}
            <a class="button" href={downloadUrl(path, file.sign)} download={file.name}>
              <Download aria-hidden size={16} /> <span class="text">{texts.files.download}</span>
            </a>
          </>
        )}
      </header>
      <Loaded>
        <Content key={stays(viewerOf(file)) ? parentOf(path) : path} path={path} file={file} />
        {dialog === 'link' && <LinkDialog path={parentOf(path)} name={file.name} onClose={close} />}
        {dialog === 'history' && <HistoryDialog path={path} onClose={close} />}
        {dialog === 'share' && me && <ShareDialog me={me} paths={[path]} hasFiles onClose={close} />}
      </Loaded>
    </section>
  )
}

/** Whether the viewer stays when the file is followed by another one of its kind in the folder. */
function stays(viewer: Viewer): boolean {
  return ['image', 'video', 'audio'].includes(viewer)
}

interface ContentProps {
  readonly path: string
  readonly file: ShownFile
}

function Content({ path, file }: ContentProps) {
  const source = useSteadyUrl(path, useSource().previewUrl(path, file.sign))
  const viewer = viewerOf(file)
  switch (viewer) {
    case 'image':
      return <PictureView path={path} file={file} />
    case 'video':
    case 'audio':
      return <MediaView kind={viewer} path={path} file={file} />
    case 'playlist':
      return <PlaylistView path={path} file={file} />
    case 'pdf':
      return <PdfView source={source} name={file.name} />
    case 'text':
    case 'markdown':
      return <TextView path={path} source={source} name={file.name} isMarkdown={viewer === 'markdown'} />
    case 'longText':
      return <LargeText source={source} name={file.name} />
    case 'docx':
    case 'xlsx':
    case 'epub':
    case 'csv':
      return <DocumentView kind={viewer} path={path} source={source} name={file.name} size={file.size} />
    case 'none':
    case 'unreadable':
      return <p class="loading">{texts.look[viewer]}</p>
  }
}
