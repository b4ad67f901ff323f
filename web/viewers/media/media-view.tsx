/** A film or a sound, followed by those beside it in its folder. */
import { parentOf } from '../../components/places.ts'
import type { ShownFile } from '../file-page.tsx'
import { useShowing, useSiblings } from '../siblings.ts'
import { Player } from './player.tsx'

interface MediaViewProps {
  readonly kind: 'video' | 'audio'
  readonly path: string
  readonly file: ShownFile
}

export default function MediaView({ kind, path, file }: MediaViewProps) {
  const { paths, at } = useSiblings(path, kind)
  const show = useShowing()
  const go = (index: number) => {
    const next = paths[index]
    if (next !== undefined) void show(next)
  }
  return <Player kind={kind} path={path} file={file} list={{ paths, at, folder: parentOf(path), go }} />
}
