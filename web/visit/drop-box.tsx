/** A share to which visitors only send files. */
import { useEffect } from 'preact/hooks'
import type { Data } from '../api/client.ts'
import { useSource } from '../entries/source.ts'
import { textsOf } from '../texts/texts.ts'
import { UploadButtons } from '../uploads/upload-buttons.tsx'
import { Notes } from '../viewers/notes.tsx'
import './drop-box.css'

const texts = textsOf('common', 'shares')

export function DropBox({ share }: { readonly share: Data<'/api/fs/get'> }) {
  const { top, name } = useSource()
  useEffect(() => {
    document.title = `${name} – ${texts.appName}`
  }, [name])
  return (
    <section class="drop-box" aria-label={name}>
      <Notes text={share.header} path={top} />
      <div class="card">
        <h1>{name}</h1>
        <p>{texts.visit.dropBox}</p>
        <UploadButtons path={top} name={name} takesFolders={false} />
      </div>
      <Notes text={share.readme} path={top} />
    </section>
  )
}
