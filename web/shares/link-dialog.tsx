/** Shows how a share is reached: its link, also as a picture, its code, and its address as a drive. */
import { useRef } from 'preact/hooks'
import { get } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Copyable } from '../components/copyable.tsx'
import { copyText } from '../components/copy-text.ts'
import { Dialog } from '../components/dialog.tsx'
import { reporting } from '../components/notices.tsx'
import { useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { qrCode } from '../components/qr-code.ts'
import { shareLink, type Share } from './share.ts'

const texts = textsOf('shares')

interface LinkDialogProps {
  readonly share: Share
  readonly title: string
  readonly onClose: () => void
}

export function LinkDialog({ share, title, onClose }: LinkDialogProps) {
  const { shares } = texts
  const shown = useRef<HTMLInputElement>(null)
  const { server, path } = shareLink(share)
  const link = server + path
  const picture = qrCode(link)
  const copy = () => void reporting(copyText(link, shown.current), shares.linkCopied)
  return (
    <Dialog title={title} otherActions={[{ name: shares.copyLink, onChoose: copy }]} onClose={onClose}>
      <p>{share.pwd === '' ? shares.send : shares.sendWithCode}</p>
      <label>
        {shares.link}
        <input ref={shown} value={link} readOnly onFocus={({ currentTarget }) => currentTarget.select()} />
      </label>
      {share.pwd !== '' && (
        <>
          <p>{shares.code}</p>
          <Copyable text={share.pwd} />
        </>
      )}
      <img class="qr" src={picture} alt={shares.qr} width={240} height={240} />
      <p>
        <a href={picture} download={`${share.id}.svg`}>
          {shares.saveQr}
        </a>
      </p>
      {share.webdav && <Drive share={share} />}
    </Dialog>
  )
}

function Drive({ share: { id, pwd } }: { readonly share: Share }) {
  const { data: access } = useRows(keys.access, () => get('/api/me/access'))
  const { shares } = texts
  if (access === undefined) return null
  return (
    <>
      <p>
        {shares.webdavAddress}{' '}
        <span class="muted">{pwd === '' ? shares.webdavHint(id) : shares.webdavCodeHint(id)}</span>
      </p>
      <Copyable text={`${access.webdav}@s/${encodeURIComponent(id)}/`} />
    </>
  )
}
