/** Shares files and folders: first the form, then the link of the new share. */
import { useRef, useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { inTree } from '../components/places.ts'
import { changed } from '../components/rows.ts'
import type { Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { LinkDialog } from './link-dialog.tsx'
import { ShareForm } from './share-form.tsx'
import { namesOf, sentShare, type EditedShare, type Share } from './share.ts'

const texts = textsOf('shares')

interface ShareDialogProps {
  readonly me: Me
  /** The paths of what is shared. */
  readonly paths: readonly string[]
  /** Whether any of them is known to be a file. */
  readonly hasFiles: boolean
  readonly onClose: () => void
}

export function ShareDialog({ me, paths, hasFiles, onClose }: ShareDialogProps) {
  const made = useRef<Share>()
  const [shown, setShown] = useState<Share>()
  async function create(edited: EditedShare): Promise<void> {
    const files = paths.map((path) => inTree(me, path))
    made.current = await post('/api/share/create', { files, id: edited.id, ...sentShare(edited) })
    await changed(keys.shares)
  }
  if (shown) return <LinkDialog share={shown} title={texts.shares.made} onClose={onClose} />
  return (
    <ShareForm
      me={me}
      title={texts.shares.newTitle(namesOf(paths))}
      action={texts.shares.create}
      count={paths.length}
      hasFiles={hasFiles}
      onClose={() => (made.current ? setShown(made.current) : onClose())}
      onSave={create}
    />
  )
}
