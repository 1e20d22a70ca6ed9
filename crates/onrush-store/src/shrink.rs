//! Giving back what a vector has allocated beyond its items.

/// Leaves a vector with room for its items and at most an eighth more. O(items).
///
/// `Vec::shrink_to_fit` asks the allocator to make the block smaller where it is, and mimalloc keeps the block as it is
/// unless more than half of it is to spare. So the items move to a block of their own size.
pub(crate) fn shrink<T: Copy>(items: &mut Vec<T>) {
    if items.capacity() - items.len() > items.len() / 8 {
        *items = items.as_slice().to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_spare_goes_to_another_block() {
        let mut items: Vec<u8> = Vec::with_capacity(2_000);
        items.extend_from_slice(&[7; 1_200]);
        let before = items.as_ptr();
        // Without this block the allocator could return the same block again.
        let kept = items.clone();
        shrink(&mut items);
        assert_ne!(items.as_ptr(), before);
        assert_eq!((items.capacity(), &items), (1_200, &kept));
        let before = items.as_ptr();
        shrink(&mut items);
        assert_eq!(items.as_ptr(), before);
        items.clear();
        shrink(&mut items);
        assert_eq!(items.capacity(), 0);
    }
}
