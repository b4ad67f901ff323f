/** The folders of the tree in the side bar. The folder that is shown, or has what is shown, is the current one. */
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { addressOf, ancestorsOf, currentPath, isOfTree, isWithin, parentOf } from '../components/places.ts'
import { useFolderTree, withFolder } from '../files/folder-tree.ts'
import { FolderTree } from '../files/folder-tree-view.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

interface FolderPlacesProps {
  /** Called when it has another number of folders, and so another height. */
  readonly onResize: () => void
}

export function FolderPlaces({ onResize }: FolderPlacesProps) {
  const [location, navigate] = useLocation()
  const shown = isOfTree(location) ? currentPath() : undefined
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(() => new Set(['/']))
  const [active, setActive] = useState('/')
  const nodes = useFolderTree(expanded)
  useEffect(onResize, [nodes.length])
  useEffect(() => {
    if (shown === undefined) return
    setExpanded((before) => new Set([...before, ...ancestorsOf(parentOf(shown))]))
  }, [shown])
  // The last one: a folder is after the one that it is in.
  const current = shown === undefined ? '' : (nodes.filter(({ path }) => isWithin(path, shown)).at(-1)?.path ?? '')
  // Before the next key is pressed.
  useLayoutEffect(() => {
    if (current !== '') setActive(current)
  }, [current])
  return (
    <FolderTree
      label={texts.nav.files}
      nodes={nodes}
      active={active}
      onActive={setActive}
      onExpand={(path, isExpanded) => setExpanded(withFolder(expanded, path, isExpanded))}
      onEnter={() => navigate(addressOf(active))}
      current={current}
    />
  )
}
