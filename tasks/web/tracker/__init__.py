"""Task families of the issue tracker."""
