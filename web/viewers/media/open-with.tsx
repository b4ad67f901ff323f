/** Opens a film or sound in a program outside of the browser, which gets a signed link to it. */
import { useQuery } from '@tanstack/preact-query'
import { Copy, ListVideo, MonitorPlay } from 'lucide-preact'
import { useRef, useState } from 'preact/hooks'
import { post } from '../../api/client.ts'
import { keys } from '../../api/keys.ts'
import { copyText } from '../../components/copy-text.ts'
import { Dialog } from '../../components/dialog.tsx'
import { Failure } from '../../components/failure.tsx'
import { report, reporting } from '../../components/notices.tsx'
import { parentOf } from '../../components/places.ts'
import { useSource } from '../../entries/source.ts'
import { folderPasswords } from '../../session/folder-passwords.ts'
import { textsOf } from '../../texts/texts.ts'
import type { ShownFile } from '../file-page.tsx'
import { platformOf, playlistOf, programsOn } from './players.ts'
import './open-with.css'

const texts = textsOf('common', 'changes', 'media')

/** Seconds for which the link works: as long as a film may be watched. */
const validity = 86_400

interface OpenWithProps {
  readonly path: string
  readonly file: ShownFile
  readonly onClose: () => void
}

export function OpenWith({ path, file, onClose }: OpenWithProps) {
  const { kind, downloadUrl } = useSource()
  const { data: url, error } = useQuery({
    queryKey: keys.link(path, String(validity)),
    queryFn: async () => {
      // What a share has needs no signature.
      if (kind === 'share') return new URL(downloadUrl(path, file.sign), location.href).href
      const fields = { path, password: folderPasswords.of(parentOf(path)), expires_in: validity }
      return (await post('/api/fs/share_link', fields)).url
    },
    // Each dialog makes a link of its own, whose time begins now.
    gcTime: 0,
    staleTime: Infinity,
  })
  return (
    <Dialog title={texts.media.openWith} onClose={onClose}>
      {error && <Failure error={error} />}
      {!error && (
        <p class="muted">
          {texts.media.openWithHint(file.name)} {kind === 'tree' && texts.media.worksForDay}
        </p>
      )}
      {url !== undefined && <Choices url={url} name={file.name} />}
    </Dialog>
  )
}

function Choices({ url, name }: { readonly url: string; readonly name: string }) {
  const { media } = texts
  const shown = useRef<HTMLInputElement>(null)
  const programs = programsOn(platformOf(navigator))
  const address = new URL(url)
  // Kept until the page is left: the browser may read it later.
  const [playlist] = useState(() =>
    URL.createObjectURL(new Blob([playlistOf(address, name)], { type: 'audio/x-mpegurl' })),
  )
  const copy = async () => {
    await copyText(url, shown.current)
    report(texts.changes.linkCopied)
  }
  return (
    <>
      <ul class="programs">
        {programs.map(({ name: program, link }) => (
          <li key={program}>
            <a class="button" href={link(address, name)}>
              <MonitorPlay aria-hidden size={18} /> {program}
            </a>
          </li>
        ))}
        <li>
          <a class="button" href={playlist} download={`${name}.m3u8`}>
            <ListVideo aria-hidden size={18} /> {media.playlistFile}
          </a>
        </li>
      </ul>
      <p class="muted">{media.playlistHint}</p>
      <div class="field-with-button">
        <label>
          {texts.changes.linkAddress}
          <input ref={shown} value={url} readOnly onFocus={({ currentTarget }) => currentTarget.select()} />
        </label>
        <button type="button" onClick={() => void reporting(copy())}>
          <Copy aria-hidden size={16} /> {texts.changes.copyLink}
        </button>
      </div>
    </>
  )
}
