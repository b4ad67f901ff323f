/** A playlist of films and sounds of the tree. */
import { keepPreviousData, useQuery } from '@tanstack/preact-query'
import { useRef, useState } from 'preact/hooks'
import { keys } from '../../api/keys.ts'
import { Failure } from '../../components/failure.tsx'
import { nameOf, parentOf } from '../../components/places.ts'
import { entryQuery } from '../../entries/folder.ts'
import { useSource } from '../../entries/source.ts'
import { textsOf } from '../../texts/texts.ts'
import { firstBytes, textOf } from '../bytes.ts'
import type { ShownFile } from '../file-page.tsx'
import { viewerOf } from '../viewer.ts'
import { longestPlaylist, playlistIn } from './m3u.ts'
import { Player } from './player.tsx'
import { QueueList } from './queue-list.tsx'

const texts = textsOf('common', 'viewers', 'media')

interface PlaylistViewProps {
  readonly path: string
  readonly file: ShownFile
}

export default function PlaylistView({ path, file }: PlaylistViewProps) {
  const { previewUrl, top } = useSource()
  const { data: playlist, error } = useQuery({
    queryKey: keys.playlist(path),
    queryFn: async ({ signal }) => {
      const text = textOf(await firstBytes(previewUrl(path, file.sign), longestPlaylist, signal))
      return playlistIn(text, parentOf(path), top)
    },
    retry: false,
  })
  if (error) return <Failure error={error} />
  if (playlist === undefined) return <p class="loading skeleton">{texts.loading}</p>
  if (playlist === null) return <p class="loading">{texts.look.none}</p>
  return (
    <>
      {playlist.skipped > 0 && <p class="loading">{texts.media.skipped(playlist.skipped)}</p>}
      {playlist.paths.length === 0 ? (
        <p class="loading">{texts.media.emptyPlaylist}</p>
      ) : (
        <Entries folder={parentOf(path)} paths={playlist.paths} />
      )}
    </>
  )
}

interface EntriesProps {
  /** The folder of the playlist. */
  readonly folder: string
  readonly paths: readonly string[]
}

function Entries({ folder, paths }: EntriesProps) {
  const [at, setAt] = useState(0)
  const path = paths[at] ?? ''
  // What was played before stays until it is known what follows.
  const { data, error, isPlaceholderData } = useQuery({ ...entryQuery(path), placeholderData: keepPreviousData })
  const shown = useRef<{ readonly path: string; readonly file: ShownFile; readonly kind: 'video' | 'audio' }>()
  const viewer = data && viewerOf(data)
  const isPlayable = viewer === 'video' || viewer === 'audio'
  if (data && isPlayable && !isPlaceholderData) shown.current = { path, file: data, kind: viewer }
  const problem = error !== null || (data && !isPlayable) ? texts.media.missing(nameOf(path)) : undefined
  const list = { paths, at, folder, go: setAt }
  if (shown.current) return <Player {...shown.current} problem={problem} list={list} />
  if (problem === undefined) return <p class="loading skeleton">{texts.loading}</p>
  return (
    <>
      <p class="loading">{problem}</p>
      <QueueList paths={paths} at={at} folder={folder} onChoose={setAt} />
    </>
  )
}
